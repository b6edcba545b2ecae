/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Trace events. Each is called from Rust by the function of its name in trace.rs, which names
 * states and operations; numbers are those of the wire.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM rsiw

#if !defined(_RSIW_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _RSIW_TRACE_H

#include <linux/tracepoint.h>
#include <linux/trace_seq.h>
#include <rdma/ib_verbs.h>

/* RFC 5040 section 4.8, RFC 5041 section 7.2, RFC 5044 section 8, RFC 6581 section 9. */
#define rsiw_show_code(code) __print_symbolic(code,			\
	{ 0x0000, "local catastrophic error" },				\
	{ 0x0100, "invalid STag" },					\
	{ 0x0101, "base or bounds violation" },				\
	{ 0x0102, "access rights violation" },				\
	{ 0x0103, "STag not associated with the stream" },		\
	{ 0x0104, "tagged offset wraps" },				\
	{ 0x0109, "STag cannot be invalidated" },			\
	{ 0x01ff, "unspecified protection error" },			\
	{ 0x0205, "invalid RDMAP version" },				\
	{ 0x0206, "unexpected opcode" },				\
	{ 0x0207, "catastrophic error of the stream" },			\
	{ 0x0208, "catastrophic error of the device" },			\
	{ 0x0209, "STag cannot be invalidated (operation)" },		\
	{ 0x02ff, "unspecified operation error" },			\
	{ 0x0f01, "by number: the program ends the stream" },		\
	{ 0x1000, "DDP: local catastrophic error" },			\
	{ 0x1100, "DDP tagged: invalid STag" },				\
	{ 0x1101, "DDP tagged: base or bounds violation" },		\
	{ 0x1102, "DDP tagged: STag not associated with the stream" },	\
	{ 0x1103, "DDP tagged: offset wraps" },				\
	{ 0x1104, "DDP tagged: invalid version" },			\
	{ 0x1201, "DDP untagged: invalid queue number" },		\
	{ 0x1202, "DDP untagged: no receive" },				\
	{ 0x1203, "DDP untagged: message number out of range" },	\
	{ 0x1204, "DDP untagged: invalid message offset" },		\
	{ 0x1205, "DDP untagged: message too long" },			\
	{ 0x1206, "DDP untagged: invalid version" },			\
	{ 0x2002, "MPA: CRC error" },					\
	{ 0x2003, "MPA: bad FPDU or marker" },				\
	{ 0x2005, "MPA: local catastrophic error" },			\
	{ 0x2006, "MPA: insufficient IRD" },				\
	{ 0x2007, "MPA: no matching ready-to-receive message" })

TRACE_EVENT(rsiw_qp_state,
	TP_PROTO(const struct ib_device *dev, u32 qpn, const char *event, const char *from,
		 const char *to),
	TP_ARGS(dev, qpn, event, from, to),
	TP_STRUCT__entry(
		__string(dev, dev->name)
		__field(u32, qpn)
		__string(event, event)
		__string(from, from)
		__string(to, to)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->qpn = qpn;
		__assign_str(event);
		__assign_str(from);
		__assign_str(to);
	),
	TP_printk("dev=%s qpn=%u event=%s from=%s to=%s", __get_str(dev), __entry->qpn,
		  __get_str(event), __get_str(from), __get_str(to))
);

DECLARE_EVENT_CLASS(rsiw_terminate,
	TP_PROTO(const struct ib_device *dev, u32 qpn, u16 code, const u8 *quote, size_t len),
	TP_ARGS(dev, qpn, code, quote, len),
	TP_STRUCT__entry(
		__string(dev, dev->name)
		__field(u32, qpn)
		__field(u16, code)
		__dynamic_array(u8, quote, len)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->qpn = qpn;
		__entry->code = code;
		memcpy(__get_dynamic_array(quote), quote, len);
	),
	TP_printk("dev=%s qpn=%u code=%#06x (%s) quote=%s", __get_str(dev), __entry->qpn,
		  __entry->code, rsiw_show_code(__entry->code),
		  __print_hex(__get_dynamic_array(quote), __get_dynamic_array_len(quote)))
);

DEFINE_EVENT(rsiw_terminate, rsiw_terminate_tx,
	TP_PROTO(const struct ib_device *dev, u32 qpn, u16 code, const u8 *quote, size_t len),
	TP_ARGS(dev, qpn, code, quote, len)
);

DEFINE_EVENT(rsiw_terminate, rsiw_terminate_rx,
	TP_PROTO(const struct ib_device *dev, u32 qpn, u16 code, const u8 *quote, size_t len),
	TP_ARGS(dev, qpn, code, quote, len)
);

TRACE_EVENT(rsiw_setup,
	TP_PROTO(const struct ib_device *dev, u32 conn, const char *input, const char *from,
		 const char *to),
	TP_ARGS(dev, conn, input, from, to),
	TP_STRUCT__entry(
		__string(dev, dev->name)
		__field(u32, conn)
		__string(input, input)
		__string(from, from)
		__string(to, to)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->conn = conn;
		__assign_str(input);
		__assign_str(from);
		__assign_str(to);
	),
	TP_printk("dev=%s conn=%u input=%s from=%s to=%s", __get_str(dev), __entry->conn,
		  __get_str(input), __get_str(from), __get_str(to))
);

TRACE_EVENT(rsiw_setup_event,
	TP_PROTO(const struct ib_device *dev, u32 conn, const char *event, int error),
	TP_ARGS(dev, conn, event, error),
	TP_STRUCT__entry(
		__string(dev, dev->name)
		__field(u32, conn)
		__string(event, event)
		__field(int, error)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->conn = conn;
		__assign_str(event);
		__entry->error = error;
	),
	TP_printk("dev=%s conn=%u event=%s error=%d", __get_str(dev), __entry->conn,
		  __get_str(event), __entry->error)
);

TRACE_EVENT(rsiw_doorbell,
	TP_PROTO(const struct ib_device *dev, u32 qpn, const char *actor),
	TP_ARGS(dev, qpn, actor),
	TP_STRUCT__entry(
		__string(dev, dev->name)
		__field(u32, qpn)
		__string(actor, actor)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->qpn = qpn;
		__assign_str(actor);
	),
	TP_printk("dev=%s qpn=%u actor=%s", __get_str(dev), __entry->qpn, __get_str(actor))
);

TRACE_EVENT(rsiw_batch,
	TP_PROTO(const struct ib_device *dev, u32 qpn, u32 octets, u32 left, int error),
	TP_ARGS(dev, qpn, octets, left, error),
	TP_STRUCT__entry(
		__string(dev, dev->name)
		__field(u32, qpn)
		__field(u32, octets)
		__field(u32, left)
		__field(int, error)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->qpn = qpn;
		__entry->octets = octets;
		__entry->left = left;
		__entry->error = error;
	),
	TP_printk("dev=%s qpn=%u octets=%u left=%u error=%d", __get_str(dev), __entry->qpn,
		  __entry->octets, __entry->left, __entry->error)
);

TRACE_EVENT(rsiw_direct,
	TP_PROTO(const struct ib_device *dev, u32 qpn, u32 peer_qpn, const char *outcome),
	TP_ARGS(dev, qpn, peer_qpn, outcome),
	TP_STRUCT__entry(
		__string(dev, dev->name)
		__field(u32, qpn)
		__field(u32, peer_qpn)
		__string(outcome, outcome)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->qpn = qpn;
		__entry->peer_qpn = peer_qpn;
		__assign_str(outcome);
	),
	TP_printk("dev=%s qpn=%u peer_qpn=%u outcome=%s", __get_str(dev), __entry->qpn,
		  __entry->peer_qpn, __get_str(outcome))
);

TRACE_EVENT(rsiw_fpdu_tx,
	TP_PROTO(const struct ib_device *dev, u32 qpn, const char *opcode, u32 msn, u32 offset,
		 u32 payload, bool last),
	TP_ARGS(dev, qpn, opcode, msn, offset, payload, last),
	TP_STRUCT__entry(
		__string(dev, dev->name)
		__field(u32, qpn)
		__string(opcode, opcode)
		__field(u32, msn)
		__field(u32, offset)
		__field(u32, payload)
		__field(bool, last)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->qpn = qpn;
		__assign_str(opcode);
		__entry->msn = msn;
		__entry->offset = offset;
		__entry->payload = payload;
		__entry->last = last;
	),
	TP_printk("dev=%s qpn=%u opcode=%s msn=%u offset=%u payload=%u last=%d", __get_str(dev),
		  __entry->qpn, __get_str(opcode), __entry->msn, __entry->offset,
		  __entry->payload, __entry->last)
);

TRACE_EVENT(rsiw_fpdu_rx,
	TP_PROTO(const struct ib_device *dev, u32 qpn, const char *opcode, u32 ulpdu, bool last,
		 u32 stag, u64 to, u32 msn, u32 mo),
	TP_ARGS(dev, qpn, opcode, ulpdu, last, stag, to, msn, mo),
	TP_STRUCT__entry(
		__string(dev, dev->name)
		__field(u32, qpn)
		__string(opcode, opcode)
		__field(u32, ulpdu)
		__field(bool, last)
		__field(u32, stag)
		__field(u64, to)
		__field(u32, msn)
		__field(u32, mo)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->qpn = qpn;
		__assign_str(opcode);
		__entry->ulpdu = ulpdu;
		__entry->last = last;
		__entry->stag = stag;
		__entry->to = to;
		__entry->msn = msn;
		__entry->mo = mo;
	),
	TP_printk("dev=%s qpn=%u opcode=%s ulpdu=%u last=%d stag=%#x to=%#llx msn=%u mo=%u",
		  __get_str(dev), __entry->qpn, __get_str(opcode), __entry->ulpdu,
		  __entry->last, __entry->stag, __entry->to, __entry->msn, __entry->mo)
);

TRACE_EVENT(rsiw_refused,
	TP_PROTO(const struct ib_device *dev, u32 qpn, const char *access, const char *why,
		 u32 stag, u64 addr, u32 len),
	TP_ARGS(dev, qpn, access, why, stag, addr, len),
	TP_STRUCT__entry(
		__string(dev, dev->name)
		__field(u32, qpn)
		__string(access, access)
		__string(why, why)
		__field(u32, stag)
		__field(u64, addr)
		__field(u32, len)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->qpn = qpn;
		__assign_str(access);
		__assign_str(why);
		__entry->stag = stag;
		__entry->addr = addr;
		__entry->len = len;
	),
	TP_printk("dev=%s qpn=%u access=%s why=%s stag=%#x addr=%#llx len=%u", __get_str(dev),
		  __entry->qpn, __get_str(access), __get_str(why), __entry->stag,
		  __entry->addr, __entry->len)
);

TRACE_EVENT(rsiw_completion,
	TP_PROTO(const struct ib_device *dev, u32 qpn, u64 wr_id, const char *operation,
		 const char *status, u32 octets, u32 vendor_err),
	TP_ARGS(dev, qpn, wr_id, operation, status, octets, vendor_err),
	TP_STRUCT__entry(
		__string(dev, dev->name)
		__field(u32, qpn)
		__field(u64, wr_id)
		__string(operation, operation)
		__string(status, status)
		__field(u32, octets)
		__field(u32, vendor_err)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->qpn = qpn;
		__entry->wr_id = wr_id;
		__assign_str(operation);
		__assign_str(status);
		__entry->octets = octets;
		__entry->vendor_err = vendor_err;
	),
	TP_printk("dev=%s qpn=%u wr_id=%#llx operation=%s status=%s octets=%u vendor_err=%#x",
		  __get_str(dev), __entry->qpn, __entry->wr_id, __get_str(operation),
		  __get_str(status), __entry->octets, __entry->vendor_err)
);

TRACE_EVENT(rsiw_invalidate,
	TP_PROTO(const struct ib_device *dev, u32 qpn, u32 stag, const char *by,
		 const char *result),
	TP_ARGS(dev, qpn, stag, by, result),
	TP_STRUCT__entry(
		__string(dev, dev->name)
		__field(u32, qpn)
		__field(u32, stag)
		__string(by, by)
		__string(result, result)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->qpn = qpn;
		__entry->stag = stag;
		__assign_str(by);
		__assign_str(result);
	),
	TP_printk("dev=%s qpn=%u stag=%#x by=%s result=%s", __get_str(dev), __entry->qpn,
		  __entry->stag, __get_str(by), __get_str(result))
);

#endif /* _RSIW_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE rsiw_trace
#include <trace/define_trace.h>
