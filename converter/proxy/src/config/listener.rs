//! Listeners: as an operator writes them, and as they are once no key contradicts another.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use serde::Deserialize;

use super::Config;
use super::check::{Invalid, invalid};

/// One listener. A kind's own settings are in [`ListenerKind`].
#[derive(Clone, Debug, PartialEq)]
pub struct Listen {
    pub kind: ListenerKind,
    /// Where it listens. `[::]` takes IPv4 as well.
    pub address: SocketAddr,
    /// Its name in logs and metrics.
    pub label: Arc<str>,
    /// Whether it takes MPTCP. Clients without MPTCP are served all the same.
    pub mptcp: bool,
    pub via_gateway: bool,
    /// Whether connections are offloaded to the kernel once their slow start is over: those between a client and a server of plain
    /// TCP that are tunnels, by CONNECT for one.
    pub offload: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ListenerKind {
    /// HTTP/1.1 to a proxy: CONNECT and absolute-form (RFC 9112 section 3.2).
    Http,
    /// SOCKS5 (RFC 1928).
    Socks5(Socks5),
    /// 0-RTT TCP Convert (RFC 8803).
    Convert(Convert),
    /// Nothing that they know of: netfilter brings their connections here.
    Transparent(Intercept),
    /// HTTP/1.1 to an origin server; the client's connection is handed to who answers.
    Handoff,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Socks5 {
    /// Names and passwords (RFC 1929). Without any, none is asked for.
    pub users: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Convert {
    /// Whether a client must show that it receives what is sent to its address (RFC 8803 section 6.2.7).
    pub cookies: bool,
    /// Whether connections begin with the client's SYN where that tells the server ([`super::Gateway::syn_option`]).
    pub early_syn: bool,
}

/// How netfilter brings connections to a transparent listener.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Intercept {
    /// `tproxy` (nft(8)): packets keep their addresses.
    Tproxy(Tproxy),
    /// `redirect` (nft(8)): the destination is rewritten, and conntrack knows what it was.
    Redirect,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tproxy {
    pub keep_client_address: bool,
    /// Whether the connection to the server, or to the gateway, is begun when the client's SYN comes to this port, and not
    /// when the client's handshake has ended.
    pub early_syn: bool,
}

impl ListenerKind {
    /// As it is written in the configuration.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Socks5(_) => "socks5",
            Self::Convert(_) => "convert",
            Self::Transparent(_) => "transparent",
            Self::Handoff => "handoff",
        }
    }
}

impl Listen {
    /// Its settings, if it is for TPROXY.
    pub fn tproxy(&self) -> Option<Tproxy> {
        match self.kind {
            ListenerKind::Transparent(Intercept::Tproxy(tproxy)) => Some(tproxy),
            _ => None,
        }
    }

    /// Whether connections to servers begin with a client's SYN.
    pub fn early_syn(&self) -> bool {
        match self.kind {
            ListenerKind::Convert(convert) => convert.early_syn,
            _ => self.tproxy().is_some_and(|tproxy| tproxy.early_syn),
        }
    }

    pub fn keeps_client_address(&self) -> bool {
        self.tproxy().is_some_and(|tproxy| tproxy.keep_client_address)
    }

    pub fn users(&self) -> Option<&BTreeMap<String, String>> {
        match &self.kind {
            ListenerKind::Socks5(socks5) => Some(&socks5.users),
            _ => None,
        }
    }
}

/// A listener as it is written. Which of the optional keys a kind takes is in docs/converter-reference.md; others are
/// refused.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools)] // each is a key of its own in the file
pub struct ListenText {
    kind: KindText,
    pub(super) address: SocketAddr,
    name: Option<String>,
    mptcp: Option<bool>,
    #[serde(default)]
    users: BTreeMap<String, String>,
    #[serde(default)]
    cookies: bool,
    intercept: Option<InterceptText>,
    #[serde(default)]
    keep_client_address: bool,
    #[serde(default)]
    via_gateway: bool,
    #[serde(default)]
    early_syn: bool,
    #[serde(default)]
    offload: bool,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum KindText {
    Http,
    Socks5,
    Convert,
    Transparent,
    Handoff,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum InterceptText {
    Tproxy,
    Redirect,
}

impl ListenText {
    /// An HTTP proxy for this machine alone.
    pub(super) fn http_on_loopback() -> Vec<Self> {
        let text = "kind = \"http\"\naddress = \"127.0.0.1:3128\"";
        vec![toml::from_str(text).expect("a listener")]
    }

    /// The listener, of this number among those of `config`, or the key that contradicts another one.
    pub(super) fn listener(&self, number: usize, config: &Config) -> Result<Listen, Invalid> {
        let key = |name: &str| format!("listen[{number}].{name}");
        self.check_address(config, &key)?;
        let kind = self.listener_kind(&key)?;
        let label = || format!("{}-{}", kind.name(), self.address);
        let listen = Listen {
            label: self.name.clone().unwrap_or_else(label).into(),
            address: self.address,
            mptcp: self.takes_mptcp(&kind, &key)?,
            via_gateway: self.via_gateway,
            offload: self.offload,
            kind,
        };
        listen.check(config, &key)?;
        Ok(listen)
    }

    fn check_address(&self, config: &Config, key: &dyn Fn(&str) -> String) -> Result<(), Invalid> {
        let accepted = if self.address.port() == 0 {
            "an address with a port above zero"
        } else if config.clients.networks.is_empty() && !self.address.ip().is_loopback() {
            "a loopback address, as long as clients.networks is empty (never an open proxy)"
        } else if self.kind == KindText::Handoff && !self.address.is_ipv4() {
            "an IPv4 address with kind = \"handoff\""
        } else {
            return Ok(());
        };
        Err(invalid(key("address"), self.address, accepted))
    }

    /// The kind with its own settings; those of other kinds are refused.
    fn listener_kind(&self, key: &dyn Fn(&str) -> String) -> Result<ListenerKind, Invalid> {
        use {InterceptText as How, KindText as Kind};
        let is_tproxy = self.intercept == Some(How::Tproxy);
        let is_convert = self.kind == Kind::Convert;
        let refused = |name, accepted| Err(invalid(key(name), true, accepted));
        if !self.users.is_empty() && self.kind != Kind::Socks5 {
            return Err(invalid(key("users"), "...", "only with kind = \"socks5\""));
        }
        if self.cookies && !is_convert {
            return refused("cookies", "only with kind = \"convert\"");
        }
        if self.keep_client_address && !is_tproxy {
            return refused("keep_client_address", "only with intercept = \"tproxy\"");
        }
        if self.early_syn && !is_tproxy && !is_convert {
            let accepted = "only with intercept = \"tproxy\" or kind = \"convert\"";
            return refused("early_syn", accepted);
        }
        Ok(match (self.kind, self.intercept) {
            (Kind::Http, None) => ListenerKind::Http,
            (Kind::Handoff, None) => ListenerKind::Handoff,
            (Kind::Socks5, None) => ListenerKind::Socks5(Socks5 {
                users: self.users.clone(),
            }),
            (Kind::Convert, None) => ListenerKind::Convert(Convert {
                cookies: self.cookies,
                early_syn: self.early_syn,
            }),
            (Kind::Transparent, Some(How::Redirect)) => ListenerKind::Transparent(Intercept::Redirect),
            (Kind::Transparent, Some(How::Tproxy)) => ListenerKind::Transparent(Intercept::Tproxy(Tproxy {
                keep_client_address: self.keep_client_address,
                early_syn: self.early_syn,
            })),
            (_, how) => {
                let value = match how {
                    None => "missing",
                    Some(How::Tproxy) => "tproxy",
                    Some(How::Redirect) => "redirect",
                };
                let accepted = "\"tproxy\" or \"redirect\" with kind = \"transparent\", and only there";
                return Err(invalid(key("intercept"), value, accepted));
            }
        })
    }

    /// MPTCP is the default where it can be.
    fn takes_mptcp(&self, kind: &ListenerKind, key: &dyn Fn(&str) -> String) -> Result<bool, Invalid> {
        let accepted = match kind {
            ListenerKind::Transparent(Intercept::Redirect) => {
                "false with intercept = \"redirect\" (MPTCP sockets have no SO_ORIGINAL_DST)"
            }
            ListenerKind::Handoff => "false with kind = \"handoff\" (MPTCP sockets have no TCP_REPAIR)",
            _ => return Ok(self.mptcp.unwrap_or(true)),
        };
        if self.mptcp == Some(true) {
            return Err(invalid(key("mptcp"), true, accepted));
        }
        Ok(false)
    }
}

impl Listen {
    /// What its own keys and the rest of the configuration say of each other.
    fn check(&self, config: &Config, key: &dyn Fn(&str) -> String) -> Result<(), Invalid> {
        let is_handoff = self.kind == ListenerKind::Handoff;
        let refused = |key: String, accepted| Err(invalid(key, true, accepted));
        let fits = |text: &String| (1..=255).contains(&text.len());
        let mut users = self.users().into_iter().flatten();
        if !users.all(|(name, password)| fits(name) && fits(password)) {
            let accepted = "names and passwords of 1 to 255 bytes (RFC 1929)";
            return Err(invalid(key("users"), "...", accepted));
        }
        if is_handoff && config.handoff.is_none() {
            let accepted = "\"handoff\" only where there is a [handoff]";
            return Err(invalid(key("kind"), "\"handoff\"", accepted));
        }
        if is_handoff && self.via_gateway {
            let accepted = "false with kind = \"handoff\": it goes to back ends";
            return refused(key("via_gateway"), accepted);
        }
        if self.via_gateway && config.gateway.is_none() {
            return refused(key("via_gateway"), "true only where there is a [gateway]");
        }
        if self.keeps_client_address() && self.via_gateway {
            let accepted = "only without via_gateway: the gateway connects to the server";
            return refused(key("keep_client_address"), accepted);
        }
        if !self.offload {
            return Ok(());
        }
        if is_handoff {
            let accepted = "false with kind = \"handoff\": its answers do not come this way";
            return refused(key("offload"), accepted);
        }
        if !cfg!(feature = "offload") {
            let accepted = "true only in a program that was built with the feature offload (docs/converter-offload.md)";
            return refused(key("offload"), accepted);
        }
        if config.offload.devices.is_empty() {
            let accepted = "true only where offload.devices names the Ethernet devices of clients and servers";
            return refused(key("offload"), accepted);
        }
        let gateway_mptcp = config.gateway.as_ref().is_some_and(|gateway| gateway.mptcp);
        for (key, is_mptcp) in [
            (key("mptcp"), self.mptcp),
            ("upstream.mptcp".into(), config.upstream.mptcp),
            ("gateway.mptcp".into(), gateway_mptcp),
        ] {
            if is_mptcp {
                let accepted = "false where a listener has offload = true (a connection of MPTCP cannot be offloaded)";
                return refused(key, accepted);
            }
        }
        Ok(())
    }
}
