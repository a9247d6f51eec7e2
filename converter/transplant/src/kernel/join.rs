//! A relay in the kernel for connections that stay: what one socket reads the other one writes (sockmap).

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use aya::maps::{MapData, SockHash};
use aya::programs::SkSkb;
use aya::{Ebpf, include_bytes_aligned};

use super::missing;
use super::table::{KEY, key};
use crate::freeze::{Obstacle, at_rest, ends};
use crate::leg::Flow;
use crate::sys;
use crate::tcp_info::TcpInfo;

static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/join.bpf.o"));

/// The program in the kernel, and its table of sockets. When it ends, joined connections hear nothing any more.
pub struct Joiner {
    writers: SockHash<MapData, [u8; KEY]>,
    _ebpf: Ebpf,
}

/// Two connections that the kernel relays between, until their sockets are closed.
#[derive(Debug)]
pub struct Joined {
    /// What each socket had taken in, and sent, when it began.
    taken: [u64; 2],
    sent: [u64; 2],
}

impl Joiner {
    /// Loads it. Needs `CAP_BPF` and `CAP_NET_ADMIN`.
    pub fn load() -> io::Result<Self> {
        let mut ebpf = Ebpf::load(OBJECT).map_err(io::Error::other)?;
        let table = ebpf.take_map("writers").ok_or_else(missing)?;
        let writers = SockHash::try_from(table).map_err(io::Error::other)?;
        let program = ebpf.program_mut("join").ok_or_else(missing)?;
        let program: &mut SkSkb = program.try_into().map_err(io::Error::other)?;
        program.load().map_err(io::Error::other)?;
        program.attach(writers.fd()).map_err(io::Error::other)?;
        Ok(Self {
            writers,
            _ebpf: ebpf,
        })
    }

    /// Joins two sockets that are deaf ([`crate::deafen`]) and at rest. They are to hear again after that.
    pub fn join(&mut self, sockets: [BorrowedFd<'_>; 2]) -> Result<Joined, Obstacle> {
        for socket in sockets {
            at_rest(socket)?;
        }
        let [a, b] = sockets;
        let joined = Joined {
            taken: [taken(a)?, taken(b)?],
            sent: [sent(a)?, sent(b)?],
        };
        for (reader, writer) in [(a, b), (b, a)] {
            let [destination, source] = ends(reader)?;
            let incoming = key(Flow {
                source,
                destination,
            });
            self.writers
                .insert(incoming, writer.as_raw_fd(), 0)
                .map_err(io::Error::other)?;
        }
        Ok(joined)
    }
}

impl Joined {
    /// Whether all that came by the socket `from` (0 or 1), the last of it a FIN, was written by the other one.
    pub fn is_written(&self, sockets: [BorrowedFd<'_>; 2], from: usize) -> io::Result<bool> {
        let came = taken(sockets[from])? - self.taken[from];
        Ok(sent(sockets[1 - from])? - self.sent[1 - from] + 1 >= came)
    }

    /// Bytes that both have taken in.
    pub fn passed(&self, sockets: [BorrowedFd<'_>; 2]) -> io::Result<u64> {
        let [a, b] = [taken(sockets[0])?, taken(sockets[1])?];
        Ok(a + b - self.taken[0] - self.taken[1])
    }
}

fn taken(socket: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(TcpInfo::of(socket)?.received())
}

/// Bytes that were written. One that is acknowledged in this moment is not counted, and never twice.
fn sent(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let acknowledged = TcpInfo::of(socket)?.acknowledged();
    Ok(acknowledged + u64::from(sys::unacknowledged(socket)?))
}
