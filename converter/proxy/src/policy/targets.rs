//! What may be reached through the converter, by the list and by the operator. Pure: the kernel is asked elsewhere.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use tributary_forbidden::{Verdict, verdict};

use crate::config::Targets;
pub use tributary_forbidden::embedded_ipv4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forbidden {
    /// Port 0, or a port that the operator refuses.
    Port,
    /// A network that the operator refuses.
    Denied,
    /// Loopback, link-local, private, multicast or reserved.
    Special,
    Own,
}

impl Forbidden {
    /// For logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Port => "port",
            Self::Denied => "denied",
            Self::Special => "special-address",
            Self::Own => "own-address",
        }
    }
}

/// Why this address and port may not be reached, if so. The address is the one that would be connected to, in the form
/// that a socket makes of it ([`IpAddr::to_canonical`]).
pub fn forbidden(target: SocketAddr, targets: &Targets) -> Option<Forbidden> {
    if target.port() == 0 || targets.deny_ports.contains(&target.port()) {
        return Some(Forbidden::Port);
    }
    let address = target.ip();
    let is_denied = |address| contains(&targets.deny, address);
    if is_denied(address) || embedded_ipv4(address).is_some_and(|inner| is_denied(inner.into())) {
        return Some(Forbidden::Denied);
    }
    (verdict(address, &targets.allow) != Verdict::Reached).then_some(Forbidden::Special)
}

/// Whether one of this machine's own addresses may be reached all the same: it must be named, alone, in `allow`.
pub fn own_is_allowed(address: IpAddr, targets: &Targets) -> bool {
    targets
        .allow
        .iter()
        .any(|net| net.prefix_len() == net.max_prefix_len() && net.contains(&address))
}

fn contains(nets: &[IpNet], address: IpAddr) -> bool {
    nets.iter().any(|net| net.contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(address: &str, targets: &Targets) -> Option<Forbidden> {
        let address: IpAddr = address.parse().expect(address);
        forbidden(SocketAddr::new(address.to_canonical(), 80), targets)
    }

    #[test]
    fn a_mapped_address_that_nobody_made_canonical_is_refused() {
        let target = "[::ffff:1.1.1.1]:80".parse().expect("address");
        assert_eq!(forbidden(target, &Targets::default()), Some(Forbidden::Special));
    }

    #[test]
    fn what_is_allowed_is_allowed_and_what_is_denied_is_the_stronger() {
        let targets = Targets {
            allow: vec!["10.0.0.0/8".parse().expect("net"), "64:ff9b::/96".parse().expect("net")],
            deny: vec![
                "10.9.0.0/16".parse().expect("net"),
                "203.0.113.0/24".parse().expect("net"),
            ],
            ..Targets::default()
        };
        assert_eq!(judge("10.1.0.1", &targets), None);
        assert_eq!(judge("64:ff9b::10.1.0.1", &targets), None);
        assert_eq!(judge("10.9.0.1", &targets), Some(Forbidden::Denied));
        assert_eq!(judge("203.0.113.2", &targets), Some(Forbidden::Denied));
        assert_eq!(judge("64:ff9b::203.0.113.2", &targets), Some(Forbidden::Denied));
        assert_eq!(judge("64:ff9b::127.0.0.1", &targets), Some(Forbidden::Special));
    }

    #[test]
    fn ports_that_are_nobodys_business_are_refused() {
        for port in [0, 25] {
            let target = SocketAddr::new("1.1.1.1".parse().expect("address"), port);
            assert_eq!(forbidden(target, &Targets::default()), Some(Forbidden::Port));
        }
    }

    #[test]
    fn an_own_address_must_be_allowed_by_name() {
        let allow = |net: &str| Targets {
            allow: vec![net.parse().expect(net)],
            ..Targets::default()
        };
        let own: IpAddr = "10.0.0.1".parse().expect("address");
        assert!(!own_is_allowed(own, &allow("10.0.0.0/8")));
        assert!(own_is_allowed(own, &allow("10.0.0.1/32")));
    }
}
