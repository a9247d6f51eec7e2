//! What a client asks of a converter.

use std::net::{SocketAddr, SocketAddrV6};

use super::header::TooLong;
use super::message::encode;
use super::option::{TcpOption, option_kind};
use super::reply::Reply;
use super::tlv::Tlv;
use crate::host::mapped;

/// A client's message: an Info TLV, a Connect TLV or both, and Cookie, path trace, source route
/// and Reuse TLVs with either. The last three are for those that know of them: to others such a request is unsupported
/// (RFC 8803 section 6.2.8).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Whether the client asks what the converter supports (RFC 8803 section 6.2.3).
    pub info: bool,
    /// The connection that is asked for (section 6.2.5).
    pub connect: Option<Connect>,
    /// The client's cookie, with any padding (section 6.2.7); see [`super::CookieKeys::check`].
    pub cookie: Option<Vec<u8>>,
    /// The converters that the request has passed (see [`Tlv::PathTrace`]); none from a client itself.
    pub path_trace: Vec<u64>,
    /// The converters that it is still to pass (see [`Tlv::SourceRoute`]): `None` leaves the way to the receiver.
    pub source_route: Option<Vec<SocketAddr>>,
    /// Whether another request may follow on this connection, on which both directions carry frames (see [`Tlv::Reuse`]).
    pub reuse: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connect {
    /// Where to: IPv4 where the message has an IPv4-mapped address.
    pub target: SocketAddr,
    /// The TCP options for the SYN to the server, in an Extended Connect TLV; `None` in a Base
    /// one. The parser leaves only supported ones, without values.
    pub options: Option<Vec<TcpOption>>,
}

impl Connect {
    /// Whether this came in an Extended Connect TLV, so that the server's TCP options MUST go
    /// back (RFC 8803 section 6.2.6).
    pub fn extended(&self) -> bool {
        self.options.is_some()
    }

    /// Whether the SYN to the server must offer this option.
    pub fn wants(&self, kind: u8) -> bool {
        self.options.iter().flatten().any(|option| option.kind == kind)
    }

    /// Whether the connection to the server must be opened with Multipath TCP (RFC 8803 section
    /// 7.5).
    pub fn wants_mptcp(&self) -> bool {
        self.wants(option_kind::MPTCP)
    }
}

impl Request {
    pub fn connect(target: SocketAddr) -> Self {
        Self {
            connect: Some(Connect { target, options: None }),
            ..Self::default()
        }
    }

    /// Asks what the converter supports.
    pub fn info() -> Self {
        Self {
            info: true,
            ..Self::default()
        }
    }

    /// Returns the message for the start of a connection to a converter; application data may
    /// follow at once (RFC 8803 section 6).
    pub fn encode(&self) -> Result<Vec<u8>, TooLong> {
        let info = self.info.then_some(Tlv::Info);
        let connect = self.connect.as_ref().map(|connect| Tlv::Connect {
            peer: peer(connect.target),
            options: connect.options.clone(),
        });
        let cookie = self.cookie.clone().map(Tlv::Cookie);
        let path_trace = (!self.path_trace.is_empty()).then(|| Tlv::PathTrace(self.path_trace.clone()));
        let source_route = self.source_route.as_ref();
        let source_route = source_route.map(|route| Tlv::SourceRoute(route.iter().copied().map(peer).collect()));
        let reuse = self.reuse.then_some(Tlv::Reuse);
        let tlvs: Vec<Tlv> = [info, connect, cookie, path_trace, source_route, reuse]
            .into_iter()
            .flatten()
            .collect();
        encode(&tlvs)
    }

    /// Returns the reply to this request once the connection to the server stands (or at once,
    /// when only Info is asked).
    ///
    /// `syn_ack_options` are the TCP options of the server's SYN+ACK as they are in its header;
    /// they go back when the Connect was extended (RFC 8803 section 6.2.6). `supported` are the
    /// kinds to announce, given to [`super::server::parse`] too; they go back when Info was asked
    /// (section 6.2.3). Neither: the message is empty, which the client needs all the same.
    pub fn reply(&self, syn_ack_options: &[u8], supported: &[u8]) -> Reply {
        let extended = self.connect.as_ref().is_some_and(Connect::extended);
        Reply {
            extended_tcp_header: extended.then(|| syn_ack_options.to_vec()),
            supported_tcp_extensions: self.info.then(|| supported.to_vec()),
        }
    }
}

/// RFC 8803 section 6.2.5: the address MUST be encoded as IPv6, IPv4 as IPv4-mapped.
fn peer(target: SocketAddr) -> SocketAddrV6 {
    SocketAddrV6::new(mapped(target.ip()), target.port(), 0, 0)
}
