// SPDX-License-Identifier: GPL-2.0

//! A raw peer: speaks MPA, DDP and RDMAP by hand over a plain TCP socket, rightly and wrongly,
//! with the verbs program `peer_ep` on the driver's side.
#![deny(unsafe_code)]

mod bytes;
mod crc;
mod ep;
#[allow(unsafe_code)]
mod ffi;
mod log;
mod net;
mod random;
mod scen;
mod scenario;
mod wire;
mod world;

use net::Res;
use scenario::Kind;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use world::World;

const USAGE: &str = "\
usage: peer list [PATTERN...]
       peer run [options] [PATTERN...]
       peer random --seed S --seconds N [options]
Plays scenarios against the driver and prints TAP, one line for each row of the
conformance matrix. A PATTERN is a row (P-ERR-7), or its beginning (P-ERR-*).
  --ep PROGRAM       the verbs program, peer_ep
  --addr ADDR        address of the driver's side (10.0.0.1)
  --own ADDR         address of this side (10.0.0.2)
  --port PORT        port the verbs program listens on (18700)
  --ep-netns NAME    network namespace of the driver's side
  --kind KIND        which scenarios: quick, long, storm, crc-off
                     (quick)
  --verbose          show all that goes over the wire
  --limit SECONDS    time for the whole run (600)
  --seed S           for random (1)
  --seconds N        for random (10)
";

struct Options {
    ep: String,
    addr: IpAddr,
    own: IpAddr,
    port: u16,
    netns: Option<String>,
    kind: Kind,
    verbose: bool,
    limit: u64,
    seed: u64,
    seconds: u64,
    patterns: Vec<String>,
}

fn parse(args: &mut std::env::Args) -> Res<Options> {
    let mut o = Options {
        ep: "peer_ep".into(),
        addr: IpAddr::from([10, 0, 0, 1]),
        own: IpAddr::from([10, 0, 0, 2]),
        port: 18700,
        netns: None,
        kind: Kind::Quick,
        verbose: false,
        limit: 600,
        seed: 1,
        seconds: 10,
        patterns: Vec::new(),
    };
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        let bad = |_| format!("bad value for {arg}");
        let worse = |_| format!("bad value for {arg}");
        match arg.as_str() {
            "--ep" => o.ep = value()?,
            "--addr" => o.addr = value()?.parse().map_err(bad)?,
            "--own" => o.own = value()?.parse().map_err(bad)?,
            "--port" => o.port = value()?.parse().map_err(worse)?,
            "--ep-netns" => o.netns = Some(value()?),
            "--kind" => {
                o.kind = match value()?.as_str() {
                    "quick" => Kind::Quick,
                    "long" => Kind::Long,
                    "storm" => Kind::Storm,
                    "crc-off" => Kind::CrcOff,
                    other => return Err(format!("unknown kind {other}")),
                }
            }
            "--verbose" => o.verbose = true,
            "--limit" => o.limit = value()?.parse().map_err(worse)?,
            "--seed" => o.seed = value()?.parse().map_err(worse)?,
            "--seconds" => o.seconds = value()?.parse().map_err(worse)?,
            option if option.starts_with('-') => return Err(format!("unknown option {option}")),
            pattern => o.patterns.push(pattern.into()),
        }
    }
    Ok(o)
}

fn world(o: &Options) -> Res<World> {
    let mut args: Vec<String> = ["--addr", &o.addr.to_string(), "--port", &o.port.to_string()]
        .iter()
        .map(|s| s.to_string())
        .collect();
    args.extend(["--limit".into(), o.limit.to_string()]);
    if let Some(netns) = &o.netns {
        args.extend(["--server-netns".into(), netns.clone()]);
    }
    let log = log::Log::default();
    let (ep, port) = ep::Ep::start(&o.ep, &args, log.clone())?;
    Ok(World::new(ep, log, SocketAddr::new(o.addr, port), o.own))
}

/// Returns whether all is well.
fn run(o: &Options) -> Res<bool> {
    let list = scen::all();
    let chosen: Vec<_> = list
        .0
        .iter()
        .filter(|s| s.fits(&o.patterns) && s.kind == o.kind)
        .collect();
    if chosen.is_empty() {
        return Err("no scenario fits".into());
    }
    let mut world = world(o)?;
    println!(
        "TAP version 13\n1..{}",
        chosen.iter().map(|s| s.ids.len()).sum::<usize>()
    );
    let (mut number, mut good) = (0, true);
    for scenario in chosen {
        good &= scenario.report(&mut world, &mut number, o.verbose)?;
    }
    Ok(good)
}

fn list(o: &Options) {
    for s in scen::all().0 {
        if s.fits(&o.patterns) {
            println!(
                "{:8} {:30} {}",
                format!("{:?}", s.kind),
                s.ids.join(" "),
                s.text
            );
        }
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args();
    args.next();
    let command = args.next().unwrap_or_default();
    let options = parse(&mut args);
    let result = match (command.as_str(), options) {
        ("--help" | "help", _) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        (_, Err(e)) => {
            eprint!("peer: {e}\n{USAGE}");
            return ExitCode::from(2);
        }
        ("list", Ok(o)) => {
            list(&o);
            Ok(true)
        }
        ("run", Ok(o)) => run(&o),
        ("random", Ok(o)) => world(&o).and_then(|mut w| random::run(&mut w, o.seed, o.seconds)),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            println!("Bail out! {e}");
            ExitCode::FAILURE
        }
    }
}
