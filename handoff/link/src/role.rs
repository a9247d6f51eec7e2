//! The role in a hand-off: a URI among the certificate's names (RFC 5280 section 4.2.1.6), as `overlay/authority.py` writes
//! it.

use std::io;

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// Without roles, anybody with a certificate of the authority could hand connections to back ends, or take them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Hands connections over.
    Front,
    /// Forwards their packets.
    Switch,
    /// Takes them over.
    BackEnd,
}

impl Role {
    fn uri(self) -> &'static str {
        match self {
            Self::Front => "tributary:handoff/front",
            Self::Switch => "tributary:handoff/switch",
            Self::BackEnd => "tributary:handoff/back-end",
        }
    }

    /// Fails if the certificate is for another role, or none.
    pub(crate) fn check(self, certificate: &CertificateDer<'_>) -> io::Result<()> {
        let certificate = EndEntityCert::try_from(certificate).map_err(io::Error::other)?;
        let uris: Vec<_> = certificate.valid_uri_names().collect();
        if uris.contains(&self.uri()) {
            return Ok(());
        }
        let has = if uris.is_empty() {
            "nothing in a hand-off".to_owned()
        } else {
            uris.join(", ")
        };
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("its certificate is for {has}: accepted: {}", self.uri()),
        ))
    }
}
