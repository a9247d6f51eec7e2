//! The client of etcd for agents and controllers: a session with a lease, which ends at any error.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use etcd_client::{
    AlarmAction, AlarmType, AuthClient, Client, Compare, CompareOp, ConnectOptions, Error, GetOptions, KeyValue,
    LeaseKeepAliveStream, LeaseKeeper, PutOptions, SortOrder, SortTarget, TlsOptions, Txn, TxnOp, WatchOptions,
    WatchStream,
};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use crate::keys::REPORT;
use crate::members::Members;
use crate::session_error::SessionError;
use crate::snapshot::Entry;

/// How long a lease outlives its holder: the least that etcd grants with its default timers.
const LEASE_SECONDS: i64 = 2;
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_millis(500);
/// If etcd has not replied within this time it counts as away.
const TIMEOUT: Duration = Duration::from_secs(2);
/// If a member has not replied within this time the next one is asked as well. A lease survives two dead members.
const CONNECT_STAGGER: Duration = Duration::from_millis(300);
/// From the end of a session to the next attempt.
const RECONNECT_DELAY: Duration = Duration::from_millis(500);
/// The same error is logged again after this time.
const REPEAT_LOG_AFTER: Duration = Duration::from_secs(60);
/// Changes come in bursts (a dead node changes both nodes and tables): after one, wait for others.
pub const SETTLE: Duration = Duration::from_millis(50);
/// The delays of 1,000 nodes are 20 MB.
const MAX_REPLY_BYTES: usize = 64 << 20;

/// Runs a session again whenever it ends, and logs why; repeated errors only once in a while.
pub async fn retry_forever(
    members: &Members,
    mut session: impl AsyncFnMut() -> Result<Infallible, SessionError>,
) -> Infallible {
    let mut logged: Option<(String, Instant)> = None;
    loop {
        let Err(error) = session().await;
        let why = format!("{members}: {error}");
        let again = logged
            .as_ref()
            .is_some_and(|(before, when)| *before == why && when.elapsed() < REPEAT_LOG_AFTER);
        if !again {
            warn!("{why}; trying again");
            logged = Some((why, Instant::now()));
        }
        sleep(RECONNECT_DELAY).await;
    }
}

/// The entries of a prefix.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// etcd's revision at which they were read.
    pub revision: i64,
    /// In the order of their keys.
    pub entries: Vec<Entry>,
}

/// A connection to one member of etcd.
#[derive(Clone)]
pub struct Store(Client);

impl Store {
    /// Connects to the first member that replies, trying all in turn from a random one on, so that clients are spread. To
    /// one member only: with several, the client library would send requests to dead ones, too.
    pub async fn connect(members: &Members) -> Result<Self, SessionError> {
        let endpoints = members.endpoints();
        let first = random_start(endpoints.len());
        let in_turn = endpoints.iter().cycle().skip(first).take(endpoints.len());
        let mut attempts = JoinSet::new();
        for (endpoint, place) in in_turn.zip(0..) {
            let (endpoint, tls) = (endpoint.clone(), members.tls().cloned());
            attempts.spawn(async move {
                sleep(CONNECT_STAGGER * place).await;
                Self::connect_to(&endpoint, tls.as_ref()).await
            });
        }
        let mut why = SessionError::new("no member of etcd's is given");
        while let Some(attempt) = attempts.join_next().await {
            match attempt.unwrap_or_else(|error| Err(SessionError::new(error.to_string()))) {
                Ok(store) => return Ok(store),
                // A refusal says more than that another member is away.
                Err(_) if why.is_refusal() => {}
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    async fn connect_to(endpoint: &String, tls: Option<&TlsOptions>) -> Result<Self, SessionError> {
        let options = ConnectOptions::new()
            .with_connect_timeout(TIMEOUT)
            .with_require_leader(true);
        let options = match tls {
            Some(tls) => options.with_tls(tls.clone()),
            None => options,
        };
        let store = Self(Client::connect([endpoint], Some(options)).await?);
        // The first request shows whether etcd is there and accepts the client.
        match store.get(REPORT).await {
            Err(error) if tls.is_some() => Err(error.in_greeting()),
            Err(error) => Err(error),
            Ok(_) => Ok(store),
        }
    }

    /// All entries with this prefix: now, or as of `revision`.
    pub async fn list(&self, prefix: &str, revision: Option<i64>) -> Result<Listing, SessionError> {
        let options = GetOptions::new().with_prefix().with_revision(revision.unwrap_or(0));
        self.read(prefix, options).await
    }

    /// The keys with this prefix, without values.
    pub async fn list_keys(&self, prefix: &str) -> Result<Listing, SessionError> {
        self.read(prefix, GetOptions::new().with_prefix().with_keys_only())
            .await
    }

    pub async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, SessionError> {
        let found = self.read(key, GetOptions::new()).await?;
        Ok(found.entries.into_iter().next().map(|(_, value)| value))
    }

    async fn read(&self, key: &str, options: GetOptions) -> Result<Listing, SessionError> {
        let (revision, found) = self.found(key, options).await?;
        let entries = found.into_iter().map(KeyValue::into_key_value).collect();
        Ok(Listing { revision, entries })
    }

    /// Fails if a member has no room left: etcd then refuses writes.
    pub async fn has_room(&self) -> Result<(), SessionError> {
        let mut client = self.0.maintenance_client();
        let alarms = client.alarm(AlarmAction::Get, AlarmType::Nospace, None);
        let alarms = with_timeout(alarms).await?;
        let is_full = |member: &etcd_client::AlarmMember| member.alarm() == AlarmType::Nospace;
        if alarms.alarms().iter().any(is_full) {
            return Err(SessionError::full());
        }
        Ok(())
    }

    /// All keys with this prefix, the oldest first, and the revision.
    pub(crate) async fn oldest_first(&self, prefix: &str) -> Result<(i64, Vec<KeyValue>), SessionError> {
        let options = GetOptions::new().with_prefix();
        let oldest_first = options.with_sort(SortTarget::Create, SortOrder::Ascend);
        self.found(prefix, oldest_first).await
    }

    async fn found(&self, key: &str, options: GetOptions) -> Result<(i64, Vec<KeyValue>), SessionError> {
        let mut client = self.0.kv_client().max_decoding_message_size(MAX_REPLY_BYTES);
        let mut found = with_timeout(client.get(key, Some(options))).await?;
        let revision = found.header().map_or(0, etcd_client::ResponseHeader::revision);
        Ok((revision, found.take_kvs()))
    }

    /// Writes a key, which expires with `lease`.
    pub async fn put(&self, key: &str, value: Vec<u8>, lease: &Lease) -> Result<(), SessionError> {
        let options = PutOptions::new().with_lease(lease.id);
        with_timeout(self.0.kv_client().put(key, value, Some(options))).await?;
        Ok(())
    }

    /// Writes a key, which expires with `lease`, unless another lease holds it; whether it was written.
    pub async fn claim(&self, key: &str, value: Vec<u8>, lease: &Lease) -> Result<bool, SessionError> {
        let options = PutOptions::new().with_lease(lease.id);
        let put = TxnOp::put(key, value, Some(options));
        let free = Compare::create_revision(key, CompareOp::Equal, 0);
        let held_by_lease = Compare::lease(key, CompareOp::Equal, lease.id);
        Ok(self.transact(free, put.clone()).await? || self.transact(held_by_lease, put).await?)
    }

    /// Performs `operation` if `condition` holds; whether it did.
    pub(crate) async fn transact(&self, condition: Compare, operation: TxnOp) -> Result<bool, SessionError> {
        let transaction = Txn::new().when([condition]).and_then([operation]);
        Ok(with_timeout(self.0.kv_client().txn(transaction)).await?.succeeded())
    }

    pub(crate) async fn delete(&self, key: &str) -> Result<(), SessionError> {
        with_timeout(self.0.kv_client().delete(key, None)).await?;
        Ok(())
    }

    /// The client for users and roles.
    pub(crate) fn auth(&self) -> AuthClient {
        self.0.auth_client()
    }

    /// Watches the keys with this prefix for changes after `revision`.
    pub async fn watch(&self, prefix: &str, revision: i64) -> Result<Changes, SessionError> {
        let options = WatchOptions::new().with_prefix().with_start_revision(revision + 1);
        Ok(Changes(
            with_timeout(self.0.watch_client().watch(prefix, Some(options))).await?,
        ))
    }

    /// The lease in `held`, if it is still valid, so that its keys survive a change of member; otherwise a new one, put
    /// into `held`. It is kept alive by a task.
    pub async fn lease<'a>(&self, held: &'a mut Option<Lease>) -> Result<&'a mut Lease, SessionError> {
        let mut kept = None;
        if let Some(Lease { id, .. }) = *held {
            kept = self.keeper(id).await.ok().map(|keep_alive| (id, keep_alive));
        }
        let (id, keep_alive) = match kept {
            Some(kept) => kept,
            None => self.granted().await?,
        };
        Ok(held.insert(Lease {
            store: self.clone(),
            id,
            keep_alive: tokio::spawn(keep_until_error(keep_alive)),
        }))
    }

    async fn granted(&self) -> Result<(i64, KeepAlive), SessionError> {
        let grant = with_timeout(self.0.lease_client().grant(LEASE_SECONDS, None)).await?;
        Ok((grant.id(), self.keeper(grant.id()).await?))
    }

    async fn keeper(&self, lease: i64) -> Result<KeepAlive, SessionError> {
        with_timeout(self.0.lease_client().keep_alive(lease)).await
    }
}

fn random_start(count: usize) -> usize {
    use std::hash::{BuildHasher as _, RandomState};
    let drawn = RandomState::new().hash_one(std::process::id());
    usize::try_from(drawn % count.max(1) as u64).unwrap_or(0)
}

type KeepAlive = (LeaseKeeper, LeaseKeepAliveStream);

pub(crate) async fn with_timeout<T>(call: impl Future<Output = Result<T, Error>>) -> Result<T, SessionError> {
    match timeout(TIMEOUT, call).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(SessionError::new(format!(
            "etcd: no answer within {} s",
            TIMEOUT.as_secs()
        ))),
    }
}

pub struct Changes(WatchStream);

impl Changes {
    /// Waits for a change after `revision`.
    pub async fn after(&mut self, revision: i64) -> Result<(), SessionError> {
        loop {
            let response = self
                .0
                .message()
                .await?
                .ok_or_else(|| SessionError::new("etcd: the watch ended"))?;
            if response.canceled() {
                return Err(SessionError::new(format!(
                    "etcd: the watch ended: {}",
                    response.cancel_reason()
                )));
            }
            let latest = response
                .events()
                .iter()
                .filter_map(|event| event.kv())
                .map(KeyValue::mod_revision);
            if latest.max().is_some_and(|latest| latest > revision) {
                return Ok(());
            }
        }
    }
}

/// A lease: etcd deletes the keys written with it when its holder is gone.
pub struct Lease {
    store: Store,
    id: i64,
    keep_alive: JoinHandle<SessionError>,
}

impl Lease {
    pub(crate) fn id(&self) -> i64 {
        self.id
    }

    /// Waits until it can no longer be kept alive.
    pub async fn expired(&mut self) -> SessionError {
        match (&mut self.keep_alive).await {
            Ok(why) => why,
            Err(error) => SessionError::new(error.to_string()),
        }
    }

    /// Ends the lease now, and deletes its keys. Without etcd it expires by itself.
    pub async fn revoke(self) {
        self.keep_alive.abort();
        let _ = with_timeout(self.store.0.lease_client().revoke(self.id)).await;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.keep_alive.abort();
    }
}

async fn keep_until_error(keep_alive: KeepAlive) -> SessionError {
    let Err(why) = run_keep_alive(keep_alive).await;
    why
}

async fn run_keep_alive((mut keeper, mut answers): KeepAlive) -> Result<Infallible, SessionError> {
    loop {
        sleep(KEEP_ALIVE_INTERVAL).await;
        keeper.keep_alive().await?;
        let left = with_timeout(answers.message()).await?.map_or(0, |answer| answer.ttl());
        if left <= 0 {
            return Err(SessionError::new("etcd: the lease has ended"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn clients_begin_with_any_of_the_members() {
        let drawn: BTreeSet<usize> = (0..200).map(|_| random_start(3)).collect();
        assert_eq!(drawn, BTreeSet::from([0, 1, 2]));
        assert_eq!((random_start(0), random_start(1)), (0, 0));
    }
}
