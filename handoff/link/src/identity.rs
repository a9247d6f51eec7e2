//! Mutual TLS: each process has a certificate, and accepts only peers whose certificate the same authority signed for the
//! expected role.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, CommonState, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use crate::role::Role;

/// The limit for a handshake: without one, silent connections would use up all descriptors. A front gives up after the same
/// time.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(2);

/// A certificate, its key and the authority's certificate.
#[derive(Clone)]
pub struct Identity {
    connector: TlsConnector,
    acceptor: TlsAcceptor,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

impl Identity {
    /// Reads the folder that `scripts/overlay enrol` made for this role: `ca.pem`, `node.pem`, `node.key`. The error names
    /// the file; it is also an error if others may read the key, or if the certificate is for another role.
    pub fn read(folder: &Path, role: Role) -> io::Result<Self> {
        let mut roots = RootCertStore::empty();
        for authority in certificates(&folder.join("ca.pem"))? {
            roots.add(authority).map_err(io::Error::other)?;
        }
        let file = folder.join("node.pem");
        let own = certificates(&file)?;
        role.check(&own[0]).map_err(|error| named(&file, &error))?;
        let key_file = folder.join("node.key");
        check_mode(&key_file)?;
        let key =
            PrivateKeyDer::from_pem_file(&key_file).map_err(|error| named(&key_file, &error))?;
        Self::new(Arc::new(roots), own, key).map_err(io::Error::other)
    }

    fn new(
        roots: Arc<RootCertStore>,
        own: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = [&rustls::version::TLS13];
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions)?
            .with_root_certificates(Arc::clone(&roots))
            .with_client_auth_cert(own.clone(), key.clone_key())?;
        let verifier =
            WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider)).build()?;
        let server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(own, key)?;
        Ok(Self {
            connector: Arc::new(client).into(),
            acceptor: Arc::new(server).into(),
        })
    }

    /// Connects to this address, which the peer's certificate must name, as must this role.
    pub async fn connect(
        &self,
        address: SocketAddr,
        role: Role,
    ) -> io::Result<client::TlsStream<TcpStream>> {
        let stream = TcpStream::connect(address).await?;
        // Without it small writes are only slower.
        let _ = stream.set_nodelay(true);
        let name = ServerName::IpAddress(address.ip().into());
        let stream = self.connector.connect(name, stream).await?;
        check(stream.get_ref().1, role)?;
        Ok(stream)
    }

    /// Accepts a connection; the peer must be a front.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<server::TlsStream<TcpStream>> {
        // Without it small writes are only slower.
        let _ = stream.set_nodelay(true);
        let stream = timeout(HANDSHAKE_TIMEOUT, self.acceptor.accept(stream)).await??;
        check(stream.get_ref().1, Role::Front)?;
        Ok(stream)
    }
}

/// Checks that others have no access to a key. Its group may read it: systemd passes credentials to a service by an access
/// control list, whose mask appears as the group's rights (acl(5)).
fn check_mode(key: &Path) -> io::Result<()> {
    const OTHERS: u32 = 0o037;
    let mode = std::fs::metadata(key).map_err(|error| named(key, &error))?;
    if mode.permissions().mode() & OTHERS != 0 {
        return Err(named(
            key,
            &"others may read or change it: accepted: mode 0600",
        ));
    }
    Ok(())
}

/// Checks the peer's role; TLS has checked that the certificate is its own.
fn check(session: &CommonState, role: Role) -> io::Result<()> {
    let peer = session.peer_certificates().and_then(<[_]>::first);
    role.check(peer.ok_or(io::ErrorKind::PermissionDenied)?)
}

fn certificates(file: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let all = CertificateDer::pem_file_iter(file).map_err(|error| named(file, &error))?;
    let all: Result<Vec<_>, _> = all.collect();
    let all = all.map_err(|error| named(file, &error))?;
    if all.is_empty() {
        return Err(named(file, &"accepted: certificates (PEM)"));
    }
    Ok(all)
}

fn named(file: &Path, error: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use std::fs::{File, Permissions, remove_file, set_permissions};

    use super::*;

    #[test]
    fn a_key_that_others_may_read_is_refused() {
        let key = std::env::temp_dir().join(format!("handoff-key-{}", std::process::id()));
        File::create(&key).expect("made");
        for (mode, is_accepted) in [
            (0o600, true),
            (0o400, true),
            (0o440, true),
            (0o644, false),
            (0o604, false),
            (0o660, false),
        ] {
            set_permissions(&key, Permissions::from_mode(mode)).expect("set");
            let checked = check_mode(&key);
            assert_eq!(checked.is_ok(), is_accepted, "{mode:o}: {checked:?}");
        }
        remove_file(&key).expect("removed");
        assert!(check_mode(&key).is_err(), "it is not there");
    }
}
