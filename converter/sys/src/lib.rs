//! What the kernel is asked for that no library wraps: the only unsafe code. No promise of a caller's is needed for any of
//! it to be sound.

mod address;
pub mod bpf;
mod descriptors;
mod multipath;
mod netlink;
mod options;
pub mod packet_filter;
mod receive;
mod tcp_info;

use std::io;
use std::time::Duration;

use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::thread::{MembarrierCommand, membarrier};
use rustix::time::{ClockId, clock_gettime};

pub use address::{canonical, mapped, octets};
pub use descriptors::inherited;
pub use multipath::{Multipath, Subflow};
pub use netlink::{Answer, Netlink, number_of};
pub use options::{
    ReceiveMemory, SocketOption, get_number, get_option, receive_memory, set_number, set_option, unacknowledged, unread,
};
pub use receive::{queued_icmp_code, receive};
pub use tcp_info::{TcpInfo, array};

/// The number of a network device in this network namespace (netdevice(7)).
pub fn device_number(name: &str) -> io::Result<u32> {
    let socket = socket(AddressFamily::UNIX, SocketType::DGRAM, None)?;
    Ok(name_to_index(&socket, name)?)
}

/// The time since the machine started, as programs in the kernel have it (`CLOCK_MONOTONIC`).
pub fn monotonic() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default()
}

/// Waits until every processor is done with packets that it had begun with: the kernel waits for a grace period of RCU,
/// under which it takes packets in (membarrier(2), `MEMBARRIER_CMD_GLOBAL`).
pub fn wait_for_packets_under_way() -> io::Result<()> {
    Ok(membarrier(MembarrierCommand::Global)?)
}
