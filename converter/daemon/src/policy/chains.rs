//! Who may say by which converters a connection goes. Pure.

use std::net::{IpAddr, SocketAddr};

use crate::config::Gateway;

/// Whether the client at this address may name the converters `source_route`: it is one of the operator's converters itself, and
/// so are all that it names. Everybody else would have this machine connect wherever they like.
pub fn may_name(client: IpAddr, source_route: &[SocketAddr], gateway: Option<&Gateway>) -> bool {
    let own = gateway.map_or(&[][..], |gateway| &gateway.converters);
    let is_own = |address: IpAddr| {
        let address = address.to_canonical();
        own.iter().any(|network| network.contains(&address))
    };
    is_own(client) && source_route.iter().all(|converter| is_own(converter.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    #[test]
    fn converters_alone_name_converters() {
        let text = "[gateway]\nconverters = [\"10.9.0.0/16\", \"2001:db8:9::/48\"]";
        let config = config::parse(text, "c.toml").expect(text);
        for (client, source_route, expected) in [
            ("10.9.0.1", &["10.9.1.1:1", "[2001:db8:9::1]:1"][..], true),
            ("::ffff:10.9.0.1", &["10.9.1.1:1"], true),
            ("10.9.0.1", &[], true),
            ("10.8.0.1", &[], false),
            ("10.9.0.1", &["10.9.1.1:1", "10.8.0.1:1"], false),
            ("10.9.0.1", &["[::ffff:10.8.0.1]:1"], false),
        ] {
            let client = client.parse().expect("address");
            let source_route: Vec<_> = source_route
                .iter()
                .map(|each| each.parse().expect("one"))
                .collect();
            let allowed = may_name(client, &source_route, config.gateway.as_ref());
            assert_eq!(allowed, expected, "{client} {source_route:?}");
            assert!(!may_name(client, &source_route, None));
        }
    }
}
