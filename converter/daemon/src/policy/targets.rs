//! What may be reached through the converter. Pure: what the kernel knows of an address is passed in.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::config::Targets;

/// Why an address is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forbidden {
    /// Port 0, or a port that the operator refuses.
    Port,
    /// A network that the operator refuses.
    Denied,
    /// Loopback, link-local, private, multicast or reserved.
    Special,
    /// An address of this machine.
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

/// Not for everybody: IANA's special-purpose registries, without the ranges for documentation.
const SPECIAL4: &[Ipv4Net] = &[
    net4([0, 0, 0, 0], 8),
    net4([10, 0, 0, 0], 8),
    net4([100, 64, 0, 0], 10),
    net4([127, 0, 0, 0], 8),
    net4([169, 254, 0, 0], 16),
    net4([172, 16, 0, 0], 12),
    net4([192, 0, 0, 0], 24),
    net4([192, 168, 0, 0], 16),
    net4([198, 18, 0, 0], 15),
    net4([224, 0, 0, 0], 4),
    net4([240, 0, 0, 0], 4),
];
const SPECIAL6: &[Ipv6Net] = &[
    net6([0, 0, 0, 0, 0, 0, 0, 0], 127),
    net6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48),
    net6([0x100, 0, 0, 0, 0, 0, 0, 0], 64),
    net6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32),
    net6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7),
    net6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 9),
    net6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8),
];
/// IPv6 networks whose last 32 bits are an IPv4 address: IPv4-mapped and -compatible (RFC 4291), NAT64 (RFC 6052).
const EMBEDDING: &[Ipv6Net] = &[
    net6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96),
    net6([0, 0, 0, 0, 0, 0, 0, 0], 96),
    net6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96),
    net6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96),
];
const SIX_TO_FOUR: Ipv6Net = net6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16);

const fn net4(address: [u8; 4], prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(
        Ipv4Addr::new(address[0], address[1], address[2], address[3]),
        prefix,
    )
}

const fn net6(a: [u16; 8], prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(
        Ipv6Addr::new(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]),
        prefix,
    )
}

/// Why this address and port may not be reached, if so.
pub fn forbidden(target: SocketAddr, targets: &Targets) -> Option<Forbidden> {
    if target.port() == 0 || targets.deny_ports.contains(&target.port()) {
        return Some(Forbidden::Port);
    }
    let address = target.ip();
    address_forbidden(address, targets).or_else(|| {
        embedded(address).and_then(|inner| address_forbidden(IpAddr::V4(inner), targets))
    })
}

fn address_forbidden(address: IpAddr, targets: &Targets) -> Option<Forbidden> {
    if contains(&targets.deny, address) {
        Some(Forbidden::Denied)
    } else if is_special(address) && !contains(&targets.allow, address) {
        Some(Forbidden::Special)
    } else {
        None
    }
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

fn is_special(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => SPECIAL4.iter().any(|net| net.contains(&four)),
        IpAddr::V6(six) => SPECIAL6.iter().any(|net| net.contains(&six)),
    }
}

/// The IPv4 address that a packet to this IPv6 address may end at.
fn embedded(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(six) = address else {
        return None;
    };
    let bits = if SIX_TO_FOUR.contains(&six) {
        six.to_bits() >> 80
    } else if EMBEDDING.iter().any(|net| net.contains(&six)) {
        six.to_bits()
    } else {
        return None;
    };
    let [.., a, b, c, d] = bits.to_be_bytes();
    Some(Ipv4Addr::from([a, b, c, d]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(address: &str, targets: &Targets) -> Option<Forbidden> {
        forbidden(
            SocketAddr::new(address.parse().expect(address), 80),
            targets,
        )
    }

    #[test]
    fn what_is_not_for_everybody_is_refused_in_every_disguise() {
        for address in [
            "127.0.0.1",
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "169.254.169.254",
            "172.31.255.255",
            "192.168.0.1",
            "192.0.0.8",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "::",
            "::1",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "100::1",
            "2001::1",
            "64:ff9b:1::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "::ffff:169.254.169.254",
        ] {
            assert_eq!(
                judge(address, &Targets::default()),
                Some(Forbidden::Special),
                "{address}"
            );
        }
    }

    #[test]
    fn what_is_for_everybody_is_not() {
        for address in [
            "1.1.1.1",
            "203.0.113.2",
            "172.32.0.1",
            "100.128.0.1",
            "2001:db8::2",
            "2606::1",
            "64:ff9b::1.1.1.1",
            "2002:101:101::1",
            "::ffff:1.1.1.1",
        ] {
            assert_eq!(judge(address, &Targets::default()), None, "{address}");
        }
    }

    #[test]
    fn what_is_allowed_is_allowed_and_what_is_denied_is_the_stronger() {
        let targets = Targets {
            allow: vec![
                "10.0.0.0/8".parse().expect("net"),
                "64:ff9b::/96".parse().expect("net"),
            ],
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
        assert_eq!(
            judge("64:ff9b::203.0.113.2", &targets),
            Some(Forbidden::Denied)
        );
        assert_eq!(
            judge("64:ff9b::127.0.0.1", &targets),
            Some(Forbidden::Special)
        );
    }

    #[test]
    fn ports_that_are_nobodys_business_are_refused() {
        for port in [0, 25] {
            let target = SocketAddr::new("1.1.1.1".parse().expect("address"), port);
            assert_eq!(
                forbidden(target, &Targets::default()),
                Some(Forbidden::Port)
            );
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
