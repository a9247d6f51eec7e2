//! Who is who: each process has a certificate, and takes only those that the same authority signed.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

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
    /// The folder that `scripts/overlay enrol` made: `ca.pem`, `node.pem`, `node.key`. Raises what reading them does, with
    /// the file's name.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let mut roots = RootCertStore::empty();
        for authority in certificates(&folder.join("ca.pem"))? {
            roots.add(authority).map_err(io::Error::other)?;
        }
        let own = certificates(&folder.join("node.pem"))?;
        let key_file = folder.join("node.key");
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

    /// A connection to who answers at this address, which its certificate must name.
    pub async fn connect(&self, address: SocketAddr) -> io::Result<client::TlsStream<TcpStream>> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::IpAddress(address.ip().into());
        self.connector.connect(name, stream).await
    }

    /// The same from the other side.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<server::TlsStream<TcpStream>> {
        stream.set_nodelay(true)?;
        self.acceptor.accept(stream).await
    }
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
