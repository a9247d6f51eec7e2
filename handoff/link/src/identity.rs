//! Mutual TLS: each process has a certificate, and accepts only peers whose certificate the same authority signed for the
//! expected role.

use std::io;
use std::net::SocketAddr;
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
use tributary_program::{Exit, Failure, IdentityFolder};

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

impl Identity {
    /// Reads the folder that `scripts/overlay enrol` made for this role; fails also if the certificate is for another role.
    pub fn read(folder: &Path, role: Role) -> Result<Self, Failure> {
        let found = IdentityFolder::read(folder)?;
        let named = |name: &str| folder.join(name).display().to_string();
        let mut roots = RootCertStore::empty();
        for authority in certificates(&found.authority).map_err(Failure::at(Exit::NoInput, named("ca.pem")))? {
            roots
                .add(authority)
                .map_err(Failure::at(Exit::NoInput, named("ca.pem")))?;
        }
        let own = certificates(&found.certificate).map_err(Failure::at(Exit::NoInput, named("node.pem")))?;
        role.check(&own[0])
            .map_err(Failure::at(Exit::NoInput, named("node.pem")))?;
        let key = PrivateKeyDer::from_pem_slice(&found.key).map_err(Failure::at(Exit::NoInput, named("node.key")))?;
        Self::new(Arc::new(roots), own, key).map_err(Failure::at(Exit::NoInput, folder.display()))
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
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider)).build()?;
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
    pub async fn connect(&self, address: SocketAddr, role: Role) -> io::Result<client::TlsStream<TcpStream>> {
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

/// Checks the peer's role; TLS has checked that the certificate is its own.
fn check(session: &CommonState, role: Role) -> io::Result<()> {
    let peer = session.peer_certificates().and_then(<[_]>::first);
    role.check(peer.ok_or(io::ErrorKind::PermissionDenied)?)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| error.to_string())?;
    if all.is_empty() {
        return Err("accepted: certificates (PEM)".to_owned());
    }
    Ok(all)
}
