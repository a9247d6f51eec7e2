//! etcd's members, and the identity to authenticate with: mutual TLS, or none on loopback.

use std::fmt::{Debug, Display, Formatter};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use etcd_client::{Certificate, Identity, TlsOptions};
use tributary_program::{Exit, Failure, IdentityFolder};

const ACCEPTED: &str = "accepted: https://HOST:PORT, or http://IP:PORT";

#[derive(Clone)]
pub struct Members {
    endpoints: Vec<String>,
    /// The folder, and its contents.
    identity: Option<(PathBuf, TlsOptions)>,
}

impl Display for Members {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.endpoints.join(","))?;
        match &self.identity {
            Some((folder, _)) => write!(formatter, ", asked with {}", folder.display()),
            None => Ok(()),
        }
    }
}

/// Leaves out the key.
impl Debug for Members {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        Display::fmt(self, formatter)
    }
}

impl Members {
    /// The members at `endpoints` (each accepted by [`endpoint`]), with the identity in this folder: `ca.pem`, `node.pem`,
    /// `node.key`.
    ///
    /// Fails if a file cannot be read, if others can read the key, if only one of https and an identity is given, or for
    /// http to another machine unless an `insecure` transport is allowed.
    pub fn new(endpoints: Vec<String>, identity: Option<&Path>, insecure: bool) -> Result<Self, Failure> {
        let usage = |what: String| Err(Failure::new(Exit::Usage, what));
        let wanted = identity.is_some();
        match endpoints.iter().find(|each| encrypted(each) != wanted) {
            Some(open) if wanted => usage(format!("{open}: accepted with --identity: https://")),
            Some(secret) => usage(format!("{secret}: accepted: with --identity FOLDER")),
            None if !(wanted || insecure || endpoints.iter().all(|each| is_here(each))) => {
                let accepted = "accepted: https, or http on this machine, or --insecure-transport";
                usage(format!("{}: {accepted}", endpoints.join(",")))
            }
            None => Ok(Self {
                endpoints,
                identity: identity.map(read).transpose()?,
            }),
        }
    }

    /// An etcd on this machine, without TLS.
    pub fn here(endpoint: String) -> Self {
        Self {
            endpoints: vec![endpoint],
            identity: None,
        }
    }

    pub fn endpoints(&self) -> &[String] {
        &self.endpoints
    }

    pub(crate) fn tls(&self) -> Option<&TlsOptions> {
        self.identity.as_ref().map(|(_, tls)| tls)
    }
}

fn encrypted(endpoint: &str) -> bool {
    endpoint.starts_with("https://")
}

fn read(folder: &Path) -> Result<(PathBuf, TlsOptions), Failure> {
    let found = IdentityFolder::read(folder)?;
    let tls = TlsOptions::new()
        .ca_certificate(Certificate::from_pem(found.authority))
        .identity(Identity::from_pem(found.certificate, found.key));
    Ok((folder.into(), tls))
}

fn is_here(endpoint: &str) -> bool {
    host_and_port(endpoint)
        .and_then(|(host, _)| bare(host).parse().ok())
        .is_some_and(|ip: IpAddr| ip.is_loopback())
}

fn host_and_port(endpoint: &str) -> Option<(&str, &str)> {
    let (_, address) = endpoint.split_once("://")?;
    address.trim_end_matches('/').rsplit_once(':')
}

fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

/// Parses a member's URL.
pub fn endpoint(text: &str) -> Result<String, String> {
    let (host, port) = host_and_port(text).ok_or(ACCEPTED)?;
    let known = encrypted(text) || text.starts_with("http://") && bare(host).parse::<IpAddr>().is_ok();
    if known && !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok() {
        Ok(text.into())
    } else {
        Err(ACCEPTED.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_urls_with_a_port() {
        let accepted = "http://127.0.0.1:2379 http://[::1]:2379/ http://192.0.2.1:2379 \
            https://etcd.example:1 https://[2001:db8::1]:2379";
        for text in accepted.split(' ') {
            assert_eq!(endpoint(text).as_deref(), Ok(text));
        }
        let refused = " 127.0.0.1:2379 http://etcd.example:1 ftp://127.0.0.1:1 \
            https://a https://:1 https://a:99999 https://a/b:1";
        for text in refused.split(' ') {
            assert!(endpoint(text).is_err(), "{text}");
        }
    }

    #[test]
    fn https_and_an_identity_come_together() {
        let secret = Members::new(vec!["https://a:1".into()], None, false).unwrap_err();
        assert_eq!(secret.exit, Exit::Usage);
        let folder = Path::new("/nonexistent");
        let open = Members::new(vec!["http://127.0.0.1:1".into()], Some(folder), false).unwrap_err();
        assert_eq!(open.exit, Exit::Usage);
        let missing = Members::new(vec!["https://a:1".into()], Some(folder), false).unwrap_err();
        assert_eq!(missing.exit, Exit::NoInput);
        assert!(missing.message.contains("node.key: cannot be read"));
    }

    #[test]
    fn http_is_for_this_machine_unless_it_is_said_to_be_safe() {
        let asked = |endpoint: &str, insecure| Members::new(vec![endpoint.into()], None, insecure);
        for here in ["http://127.0.0.1:2379", "http://[::1]:2379/"] {
            assert!(asked(here, false).is_ok(), "{here}");
        }
        let refusal = asked("http://192.0.2.1:2379", false).unwrap_err();
        assert_eq!(refusal.exit, Exit::Usage);
        assert!(refusal.message.ends_with("or --insecure-transport"));
        assert!(asked("http://192.0.2.1:2379", true).is_ok());
    }
}
