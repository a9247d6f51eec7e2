//! The kernel's counters, for Prometheus.

use std::sync::atomic::Ordering;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use crate::kernel::netstat::MptcpCounters;

/// What the kernel counts in this network namespace, as it was at the last scrape.
#[derive(Debug, Default)]
pub struct KernelCounters {
    dss_not_matching: Counter,
    data_checksum_errors: Counter,
    retransmissions: Counter,
}

impl KernelCounters {
    /// Has `r` expose them.
    pub fn register(&self, r: &mut Registry) {
        r.register(
            "kernel_mptcp_dss_not_matching",
            "Mappings that did not fit, by the kernel's count for the network namespace (DSSNotMatching)",
            self.dss_not_matching.clone(),
        );
        r.register(
            "kernel_mptcp_data_checksum_errors",
            "Data with a wrong checksum of MPTCP, by the kernel's count for the network namespace (DataCsumErr)",
            self.data_checksum_errors.clone(),
        );
        r.register(
            "kernel_mptcp_retransmissions",
            "Times that MPTCP sent data again, by the kernel's count for the network namespace (MPTCPRetrans)",
            self.retransmissions.clone(),
        );
    }

    /// The kernel has counted before the process began, so that its numbers are taken as they are.
    pub fn set(&self, now: &MptcpCounters) {
        for (counter, number) in [
            (&self.dss_not_matching, now.dss_not_matching),
            (&self.data_checksum_errors, now.data_checksum_errors),
            (&self.retransmissions, now.retransmissions),
        ] {
            counter.inner().store(number, Ordering::Relaxed);
        }
    }
}
