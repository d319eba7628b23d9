//! `vioperf serve`: the other end of `vioperf test`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::process::ExitCode;

use anyhow::{Context, anyhow};

use crate::cli::ServeArgs;
use crate::exit::{Failure, run_code};
use crate::interrupt::{Interrupt, signal_name};
use crate::machines::DEFAULT_PORT;
use crate::machines::server::{Config, limits::Limits, serve};
use crate::machines::tls::Identity;
use crate::machines::token::Token;
use crate::output::Output;
use vioperf_model::record::RunEnding;

/// Serves until it is interrupted.
pub fn execute(args: &ServeArgs, output: &Output) -> Result<ExitCode, Failure> {
    if let Some(file) = &args.new_token {
        Token::make(file)?;
        output.note(format_args!(
            "{} holds a new token: copy it to the other machine, then give --token-file to serve \
             and test",
            file.display()
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let address = listening_address(args.listen.as_deref().unwrap_or(""))?;
    let token = Token::find(args.token_file.as_deref()).map_err(Failure::Usage)?;
    if token.is_none() && !address.ip().to_canonical().is_loopback() {
        return Err(Failure::Usage(anyhow!(
            "{address} can be reached from other machines, so clients have to prove that they know \
             a token: make one with `vioperf serve --new-token FILE`, copy it to the other machine, \
             and give --token-file FILE to serve and test"
        )));
    }
    let identity = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => Some(Identity::kept(certificate, key)?),
        _ if args.tls => Some(Identity::fleeting()?),
        _ => None,
    };
    let listener = TcpListener::bind(address).with_context(|| {
        format!(
            "cannot listen on {address}; is that an address of this machine, and the port free?"
        )
    })?;
    let interrupt = Interrupt::listen().context("cannot listen for signals")?;
    let config = Config {
        max_clients: usize::from(args.max_clients.max(1)),
        one_off: args.one_off,
        limits: Limits {
            duration: args.max_duration,
            streams: args.max_streams,
            rate: args.max_rate,
            memory: args.max_memory,
        },
        token,
        identity,
    };
    let who = match &config.token {
        Some(_) => "those who know the token",
        None => "anybody on this machine",
    };
    let address = listener.local_addr().unwrap_or(address);
    output.note(format_args!("listening on {address} for {who}"));
    if let Some(identity) = &config.identity {
        output.note(format_args!("clients give --tls-pin {}", identity.pin()));
    }
    serve(&listener, config, &interrupt, output.clone())?;
    Ok(match interrupt.signal() {
        None => ExitCode::SUCCESS,
        Some(signal) => {
            let signal = signal_name(signal).to_owned();
            run_code(&RunEnding::Interrupted { signal }, false)
        }
    })
}

/// `ADDRESS:PORT`, either left out or not.
fn listening_address(text: &str) -> Result<SocketAddr, Failure> {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let found = match (text, bare.parse::<IpAddr>(), text.strip_prefix(':')) {
        ("", ..) => Some(SocketAddr::new(loopback, DEFAULT_PORT)),
        (_, Ok(address), _) => Some(SocketAddr::new(address, DEFAULT_PORT)),
        (_, _, Some(port)) => port.parse().ok().map(|port| SocketAddr::new(loopback, port)),
        _ => text.parse().ok(),
    };
    found.ok_or_else(|| {
        Failure::Usage(anyhow!(
            "--listen {text}: write an address of this machine, like 192.0.2.1, 0.0.0.0:5210, \
             [::]:5210 or :5210"
        ))
    })
}
