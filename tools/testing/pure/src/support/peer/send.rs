// SPDX-License-Identifier: GPL-2.0

//! The sending half of the peer.

use super::{Outgoing, Peer, Wr};
use crate::proto::reads::{OrqEntry, Purpose};
use crate::proto::state::Event;
use crate::proto::tx::{self, may_start, Class, Kind, Start};
use crate::support::crc::crc32c;
use crate::wire::ddp::TaggedOffset;
use crate::wire::fpdu::{pad_len, Crc, Trailer};
use crate::wire::terminate::TermError;

impl Peer {
    /// Sends up to `fpdus` FPDUs.
    pub(crate) fn transmit(&mut self, fpdus: usize) {
        for _ in 0..fpdus {
            if !self.state.sends() || !self.gate || !self.pick() {
                return;
            }
            let Some(mut outgoing) = self.outgoing.take() else {
                return;
            };
            let mut header = [0; tx::MAX_HEADER];
            let frame = outgoing
                .message
                .next(self.mulpdu, &mut header)
                .expect("not done");
            let start = frame.offset as usize;
            let payload = &outgoing.data[start..start + usize::from(frame.payload)];
            self.emit(&header[..frame.header_len], payload, frame.ulpdu_len);
            if frame.last && outgoing.response {
                self.irq.pop();
            }
            if !frame.last {
                self.outgoing = Some(outgoing);
            } else if let Some(token) = outgoing.done {
                self.order.done(token);
                self.complete();
            }
        }
    }

    /// Makes sure that there is a message to send: a response first (T-47), then the SQ.
    fn pick(&mut self) -> bool {
        if self.outgoing.is_some() {
            return true;
        }
        if let Some(entry) = self.irq.front() {
            let r = entry.request;
            let data = self.regions.get(&r.source_stag.0).and_then(|region| {
                Some(region.bytes[region.range(r.source_to.0, r.len.into())?].to_vec())
            });
            // T-5: a length of zero is zero octets, whatever else there is.
            let Some(data) = (if r.len == 0 { Some(Vec::new()) } else { data }) else {
                self.fail(TermError::RemoteStag, Some(entry.quote(0)));
                return false;
            };
            let kind = Kind::ReadResponse {
                stag: r.sink_stag,
                to: r.sink_to,
            };
            self.outgoing = Some(Outgoing {
                message: self.tx.message(kind, r.len),
                data,
                done: None,
                response: true,
            });
            return true;
        }
        self.next_wr()
    }

    fn next_wr(&mut self) -> bool {
        let Some(posted) = self.sq.front() else {
            return false;
        };
        let class = match posted.wr {
            Wr::Read(_) => Class::Read,
            _ => Class::Transfer,
        };
        let ord = self.params.map_or(0, |p| p.ord.into());
        let earlier = !self.order.is_empty();
        let reads = self.orq.outstanding();
        let start = may_start(class, posted.fence, reads, ord, earlier);
        if start == Start::Wait || self.order.is_full() {
            return false;
        }
        let posted = self.sq.pop_front().expect("looked at");
        let token = self.order.push(posted.id).expect("room");
        if start == Start::NoReadResources {
            self.order.fail(token, 1);
            self.complete();
            self.apply(Event::LocalError {
                error: TermError::LocalCatastrophic,
                in_completion: true,
                can_send: self.gate,
            });
            return false;
        }
        let (kind, data, done) = match posted.wr {
            Wr::Send {
                data,
                solicited,
                invalidate,
            } => {
                let kind = Kind::Send {
                    solicited,
                    invalidate,
                };
                (kind, data, Some(token))
            }
            Wr::Write { data, stag, to } => {
                let to = TaggedOffset(to);
                (Kind::Write { stag, to }, data, Some(token))
            }
            Wr::Read(request) => {
                let entry = OrqEntry {
                    sink_stag: request.sink_stag,
                    sink_to: request.sink_to,
                    len: request.len,
                    purpose: Purpose::Request {
                        token,
                        invalidate: false,
                    },
                    ..OrqEntry::default()
                };
                self.orq.push(entry).expect("`may_start` keeps to ORD");
                (Kind::ReadRequest(request), Vec::new(), None)
            }
        };
        let message = self.tx.message(kind, data.len() as u32);
        self.outgoing = Some(Outgoing {
            message,
            data,
            done,
            response: false,
        });
        true
    }

    /// Puts an FPDU on the wire, markers included.
    pub(super) fn emit(&mut self, header: &[u8], payload: &[u8], ulpdu_len: u16) {
        let mut fpdu = [header, payload].concat();
        let pad = pad_len(ulpdu_len);
        fpdu.resize(fpdu.len() + pad, 0);
        let mut marked = Vec::new();
        let mut at = 0;
        if let Some(markers) = &mut self.markers {
            let total = fpdu.len() as u32 + 4;
            for marker in markers.next_fpdu(total) {
                marked.extend_from_slice(&fpdu[at..marker.at as usize]);
                marked.extend_from_slice(&marker.bytes);
                at = marker.at as usize;
            }
        }
        marked.extend_from_slice(&fpdu[at..]);
        let crc = self.params.is_some_and(|p| p.crc);
        let crc = crc.then(|| Crc::new().update(crc32c, &marked));
        // The pad is in `marked` already, so ask for a trailer without one.
        let trailer = Trailer::new(2, crc, crc32c);
        self.out.extend(&marked);
        self.out.extend(trailer.as_bytes());
    }
}
