//! From a file to a checked configuration, or to the one line that says what is wrong with it.

use std::path::Path;
use tributary_program::{Exit, Failure, read_text};

use super::check::{self, Invalid};
use super::{Config, Handoff, routes_file};

/// The configuration in `path`, or the one without a file; a failure exits with 66 if it cannot be read, with 64 if it is
/// wrong.
pub fn load(path: Option<&Path>) -> Result<Config, Failure> {
    let Some(path) = path else {
        return parse("", "");
    };
    let name = path.display().to_string();
    let mut config = parse(&read_text(path)?, &name)?;
    if let Some(gateway) = &mut config.gateway {
        if let Some(file) = &gateway.routes_file {
            let more = routes_file::load(file)?;
            gateway.routes.extend(more);
            check::check_routes(&config).map_err(|invalid| refused(&name, &invalid))?;
        }
    }
    Ok(config)
}

/// The configuration in `text`; `name` is the file's, for the message.
pub fn parse(text: &str, name: &str) -> Result<Config, Failure> {
    let usage = |message: String| Failure::new(Exit::Usage, message);
    let document = toml::Deserializer::parse(text).map_err(|error| usage(at(text, name, "", &error)))?;
    let mut config: Config = serde_path_to_error::deserialize(document).map_err(|error| {
        let key = error.path().to_string();
        usage(at(text, name, if key == "." { "" } else { &key }, error.inner()))
    })?;
    check::check(&mut config).map_err(|invalid| refused(name, &invalid))?;
    config.upstream.may_offload = config.offloads();
    config.handoff.iter_mut().for_each(Handoff::number);
    Ok(config)
}

fn refused(name: &str, invalid: &Invalid) -> Failure {
    let Invalid { key, value, accepted } = invalid;
    Failure::new(Exit::Usage, format!("{name}: {key} = {value}: accepted: {accepted}"))
}

/// One line: file, line, key, the text in question, and what is accepted.
fn at(text: &str, name: &str, key: &str, error: &toml::de::Error) -> String {
    let message = error.message().replace('\n', " ");
    let Some(span) = error.span() else {
        return format!("{name}: {key}: {message}");
    };
    let before = &text[..span.start];
    let line = before.matches('\n').count() + 1;
    if key.split('.').any(|part| part == "users") {
        return format!("{name}:{line}: {key} = ...: accepted: {{ name = \"password\" }}");
    }
    let value = &text[span];
    let may_be_password = value.contains("users") || key.is_empty() && is_behind_users(before);
    let value = if may_be_password {
        "..."
    } else {
        value.lines().next().unwrap_or_default().trim()
    };
    match key {
        "" => format!("{name}:{line}: {value}: {message}"),
        _ => format!("{name}:{line}: {key} = {value}: {message}"),
    }
}

/// Whether what comes next, of which the parser knows no key, may be a password.
fn is_behind_users(before: &str) -> bool {
    let listener = before.rsplit("[[").next();
    listener.is_some_and(|listener| listener.contains("users"))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::config::cases;

    fn refusal(text: &str) -> String {
        let failure = parse(text, "c.toml").expect_err(text);
        assert_eq!(failure.exit, Exit::Usage);
        assert!(!failure.message.contains('\n'), "{failure}");
        failure.message
    }

    #[test]
    fn an_empty_file_is_a_proxy_for_this_machine_alone() {
        let config = parse("", "c.toml").expect("empty");
        assert!(config.listen.iter().all(|listen| listen.address.ip().is_loopback()));
        assert!(config.clients.networks.is_empty());
    }

    #[test]
    fn the_log_has_as_much_of_a_clients_address_as_it_may() {
        for (clients, v4, v6) in [
            ("full", "10.1.2.3:9", "[2001:db8:1:2::3]:9"),
            ("network", "10.1.2.0:0", "[2001:db8:1::]:0"),
            ("none", "0.0.0.0:0", "[::]:0"),
        ] {
            let text = format!("[log]\nclients = \"{clients}\"");
            let log = parse(&text, "c.toml").expect("valid").log;
            for (client, logged) in [("10.1.2.3:9", v4), ("[2001:db8:1:2::3]:9", v6)] {
                let client: SocketAddr = client.parse().expect("an address");
                assert_eq!(log.clients.socket_address(client).to_string(), logged);
            }
        }
    }

    fn refuses(text: &str, parts: &[&str]) {
        let message = refusal(text);
        let has_all = parts.iter().all(|part| message.contains(part));
        assert!(has_all, "{text:?} gives {message:?}");
    }

    #[test]
    fn what_is_wrong_is_named_with_file_key_value_and_what_is_accepted() {
        for (text, parts) in cases(
            r#"
            [limits]\nconnection = 5 => c.toml:2 | connection | unknown field | connections_per_client
            [limits]\nconnections = "many" => c.toml:2 | limits.connections | "many"
            [limits]\nbuffered = 5 => limits.buffered | 5
            [limits]\nbuffered = "5" => limits.buffered | "5" | with its unit
            [timeouts]\nidle = "0s" => timeouts.idle | above zero
            [timeouts]\nidle = 10 => timeouts.idle | 10 | string
            [limits => c.toml:1
            [early_syn]\nper_client = 0 => early_syn.per_client = 0 | above zero
            [early_syn]\ntimeout = "61s" => early_syn.timeout = 61s | at most 60s
            [targets]\nallow = ["10.0.0.0/8", "169.254.0.1/32"] => c.toml: targets.allow = 169.254.0.1/32 | link-local
            [targets]\nallow = ["127.0.0.1/32"] => targets.allow = 127.0.0.1/32 | never 127.0.0.0/8: loopback
            [timeouts]\nunused = "0s" => timeouts.unused | above zero
            [clients]\nnetworks = ["0.0.0.0/0"] => clients.networks = 0.0.0.0/0 | open proxy
            [[clients.shared]]\nnetwork = "10.4.0.0/16"\nprefix = 15 => shared[0].prefix = 15 | 16 to 32, inside of 10
            [[clients.shared]]\nnetwork = "10.84.0.0/16"\nprefix = 33 => clients.shared[0].prefix = 33 | 16 to 32
            listen = [] => listen | one listener or more
            [gateway]\naddress = "127.0.0.1:3128" => gateway = 127.0.0.1:3128 | another converter's
            [clients]\nnetworks = ["10.0.0.0/33"] => clients.networks[0] | 10.0.0.0/33
            [[listen]]\nkind = "ftp"\naddress = "127.0.0.1:1" => listen[0].kind | ftp | socks5
            [[listen]]\nkind = "http"\naddress = "10.0.0.1" => listen[0].address | 10.0.0.1
            [[listen]]\nkind = "http"\naddress = "0.0.0.0:3128" => listen[0].address | loopback | open proxy
            [[listen]]\nkind = "http"\naddress = "127.0.0.1:0" => listen[0].address | port above zero
            "#,
        ) {
            refuses(&text, &parts);
        }
    }

    #[test]
    fn so_are_the_keys_of_a_gateway() {
        for (keys, parts) in cases(
            r#"
            [[gateway.routes]]\nto = ["10.0.0.0/8"]\nvia = "nowhere" => gateway.routes[0].via | nowhere | direct
            [[gateway.routes]]\nto = ["10.0.0.0/8", "10.1.2.3/8"]\nvia = "direct" => routes = 10.1.2.3/8 | network once
            [[gateway.sizes]]\npath = "films"\nsize = "1GB" => gateway.sizes[0].path | films | with one * at most
            [[gateway.sizes]]\nmethod = "get"\npath = "*"\nsize = "1GB" => gateway.sizes.method = get | such as "GET"
            [[gateway.routes]]\nto = ["10.0.0.0/8"]\nabove = "1"\nvia = "direct" => routes[0].above | with its unit
            syn_option = true => gateway.syn_option = true | mptcp = false
            "#,
        ) {
            refuses(&format!("[gateway]\naddress = \"10.0.0.1:3129\"\n{keys}"), &parts);
        }
    }

    #[test]
    fn so_are_the_keys_of_a_listener_that_contradict_each_other() {
        const NETWORKS: &str = "[clients]\nnetworks = [\"10.0.0.0/8\"]\n";
        for (keys, parts) in cases(
            r#"
            kind = "http"\ncookies = true => listen[0].cookies | convert
            kind = "http"\nusers = { a = "b" } => listen[0].users | socks5
            kind = "socks5"\nusers = { "" = "b" } => listen[0].users | RFC 1929
            kind = "transparent" => listen[0].intercept | missing | tproxy
            kind = "http"\nintercept = "tproxy" => listen[0].intercept | transparent
            kind = "transparent"\nintercept = "redirect"\nearly_syn = true => listen[0].early_syn | tproxy
            kind = "http"\nvia_gateway = true => listen[0].via_gateway | [gateway]
            kind = "http"\nkeep_client_address = true => listen[0].keep_client_address | tproxy
            "#,
        ) {
            let text = format!("{NETWORKS}[[listen]]\naddress = \"0.0.0.0:99\"\n{keys}");
            refuses(&text, &parts);
        }
    }

    #[test]
    fn no_message_has_a_password() {
        for users in [
            "{ bob = 4711 }",
            "{ bob = [\"4711\"] }",
            "{ bob = { word = \"4711\" } }",
            "\"bob:4711\"",
            "{ bob = \"4711 }",
            "{ bob = 4711x }",
            "{ bob = \"4711\" alice }",
        ] {
            let message = refusal(&format!(
                "[[listen]]\nkind = \"socks5\"\naddress = \"127.0.0.1:1080\"\nusers = {users}"
            ));
            assert!(!message.contains("4711"), "{users} gives {message:?}");
            assert!(message.contains("c.toml:4"), "{users} gives {message:?}");
        }
        for listen in [
            "[{ kind = \"socks5\", users = { bob = \"4711\" } }]",
            "{ kind = \"socks5\", users = { bob = \"4711\" } }",
        ] {
            let message = refusal(&format!("listen = {listen}"));
            assert!(!message.contains("4711"), "{listen} gives {message:?}");
        }
    }

    #[test]
    fn so_is_a_hand_off_that_cannot_be() {
        const BACK_END: &str = "back_ends = [{ name = \"a\", fronts = \"10.0.2.1:7401\", \
                                hand_off = \"10.0.2.1:7400\", http = \"10.0.2.1:80\" }]\n";
        const RULE: &str = "rules = [{ to = [\"a\"] }]\n";
        const FRONT: &str = "switch = \"/run/switch\"\nidentity = \"front\"\n";
        const ALLOW: &str = "[targets]\nallow = [\"10.0.2.0/24\"]\n[clients]\nnetworks = [\"10.0.0.0/24\"]\n";
        let good = format!("{ALLOW}[handoff]\n{FRONT}{BACK_END}{RULE}");
        let listen = |keys: &str| format!("{good}[[listen]]\nkind = \"handoff\"\n{keys}");
        let right = parse(&listen("address = \"10.0.1.1:80\""), "c.toml").expect("right");
        assert_eq!(right.handoff.expect("it has one").relay_below, 64_000);
        for (keys, parts) in cases(
            r#"
            address = "[2001:db8::1]:80" => listen[0].address | IPv4
            address = "10.0.1.1:80"\nmptcp = true => listen[0].mptcp | TCP_REPAIR
            address = "10.0.1.1:80"\nvia_gateway = true => listen[0].via_gateway | back ends
            "#,
        ) {
            refuses(&listen(&keys), &parts);
        }
        let nobody = "[[listen]]\nkind = \"handoff\"\naddress = \"127.0.0.1:80\"";
        refuses(nobody, &["listen[0].kind", "[handoff]"]);
        refuses(&good.replace(ALLOW, ""), &["handoff.back_ends.http", "targets.allow"]);
        for (change, parts) in cases(
            r#"
            /run/switch -> run => handoff.switch = run | absolute path
            ["a"] -> ["b"] => handoff.rules.to = b | back_ends
            ["a"] -> [] => handoff.rules.to | one back end
            ["a"] -> ["a"], path = "x" => handoff.rules.path = x | "/"
            ["a"] -> ["a"], choose = "any" => choose | least-loaded
            ["a"] -> ["a"], min_size = "2kB", max_size = "1kB" => handoff.rules.min_size = 2000B | max_size
            ["a"] -> ["a"], methods = ["get"] => handoff.rules.methods = get | GET
            identity -> relay_below = "100"\nidentity => handoff.relay_below | "45kB"
            "#,
        ) {
            let (right, wrong) = change.split_once(" -> ").expect("a change");
            refuses(&good.replace(right, wrong), &parts);
        }
    }

    #[test]
    fn listeners_with_early_syn_at_one_port_begin_the_same_connections() {
        const START: &str = "[clients]\nnetworks = [\"10.0.0.0/8\"]\n[gateway]\naddress = \"10.0.0.1:5124\"\n";
        const TPROXY: &str = "kind = \"transparent\"\nintercept = \"tproxy\"";
        let pair = |first: &str, second: &str| {
            format!(
                "{START}[[listen]]\naddress = \"10.0.0.2:443\"\n{first}\n\
                 [[listen]]\naddress = \"[fd00::2]:443\"\n{second}\n"
            )
        };
        let (early, via_gateway) = ("early_syn = true", "via_gateway = true");
        for other in [
            format!("{TPROXY}\n{early}\n{via_gateway}"),
            format!("{TPROXY}\n{early}\nkeep_client_address = true"),
            format!("kind = \"convert\"\n{early}"),
        ] {
            for text in [
                pair(&format!("{TPROXY}\n{early}"), &other),
                pair(&other, &format!("{TPROXY}\n{early}")),
            ] {
                let message = refusal(&text);
                for part in ["listen[1].early_syn = true", "10.0.0.2:443", "the same kind"] {
                    assert!(message.contains(part), "{text:?} gives {message:?}");
                }
            }
        }
        let alike = format!("{TPROXY}\n{early}\n{via_gateway}");
        parse(&pair(&alike, &alike), "c.toml").expect("alike");
        parse(&pair(&alike, TPROXY), "c.toml").expect("one of them");
    }

    #[test]
    fn two_listeners_need_two_addresses_and_two_names() {
        let listen =
            |port: u16, name: &str| format!("[[listen]]\nkind = \"http\"\naddress = \"127.0.0.1:{port}\"\n{name}");
        assert!(refusal(&(listen(1, "") + "\n" + &listen(1, "name = \"b\""))).contains("no other listener"));
        let named = "name = \"a\"\n";
        assert!(refusal(&(listen(1, named) + &listen(2, named))).contains("listen[1].name"));
    }
}
