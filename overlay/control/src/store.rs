//! etcd as agents and controllers use it: a session with a lease, which ends when anything goes wrong.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use etcd_client::{
    AlarmAction, AlarmType, AuthClient, Client, Compare, CompareOp, ConnectOptions, Error,
    GetOptions, KeyValue, LeaseKeepAliveStream, LeaseKeeper, PutOptions, SortOrder, SortTarget,
    TlsOptions, Txn, TxnOp, WatchOptions, WatchStream,
};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use crate::keys::REPORT;
use crate::lost::Lost;
use crate::members::Members;
use crate::snapshot::Entry;

/// Seconds that a lease outlives its holder: the least that etcd grants by its default timers.
const LEASE_SECONDS: i64 = 2;
/// So often it is kept alive.
const KEPT_EVERY: Duration = Duration::from_millis(500);
/// etcd answers within this time, or is away.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The next member is asked as well when one has not answered within this time. A lease outlives two that are dead.
const NEXT_MEMBER: Duration = Duration::from_millis(300);
/// From the end of a session to the next attempt.
const PAUSE: Duration = Duration::from_millis(500);
/// The same trouble is told again after this time.
const REMINDER: Duration = Duration::from_secs(60);
/// Delays of 1000 nodes are 20 MB.
const LONGEST_ANSWER: usize = 64 << 20;

/// Begin a session with these members again whenever it ends. Says why it ended, but not the same thing all the time.
pub async fn forever(
    members: &Members,
    mut session: impl AsyncFnMut() -> Result<Infallible, Lost>,
) -> Infallible {
    let mut said: Option<(String, Instant)> = None;
    loop {
        let Err(lost) = session().await;
        let why = format!("{members}: {lost}");
        let again = said
            .as_ref()
            .is_some_and(|(before, when)| *before == why && when.elapsed() < REMINDER);
        if !again {
            warn!("{why}; trying again");
            said = Some((why, Instant::now()));
        }
        sleep(PAUSE).await;
    }
}

/// Entries of a prefix, at a revision.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// etcd's revision when it was read.
    pub revision: i64,
    /// In the order of their keys.
    pub entries: Vec<Entry>,
}

/// A connection to one of etcd's members.
#[derive(Clone)]
pub struct Store(Client);

impl Store {
    /// To the first of these members that answers, one after the other from any of them on: so clients are spread over all.
    /// To one alone: among several at a time, each question to one that is away would fail.
    pub async fn connect(members: &Members) -> Result<Self, Lost> {
        let endpoints = members.endpoints();
        let first = anywhere(endpoints.len());
        let in_turn = endpoints.iter().cycle().skip(first).take(endpoints.len());
        let mut attempts = JoinSet::new();
        for (endpoint, place) in in_turn.zip(0..) {
            let (endpoint, tls) = (endpoint.clone(), members.tls().cloned());
            attempts.spawn(async move {
                sleep(NEXT_MEMBER * place).await;
                Self::reach(&endpoint, tls.as_ref()).await
            });
        }
        let mut why = Lost::new("no member of etcd's is given");
        while let Some(attempt) = attempts.join_next().await {
            match attempt.unwrap_or_else(|error| Err(Lost::new(error.to_string()))) {
                Ok(store) => return Ok(store),
                // Says more than that another one is away.
                Err(_) if why.is_refusal() => {}
                Err(lost) => why = lost,
            }
        }
        Err(why)
    }

    async fn reach(endpoint: &String, tls: Option<&TlsOptions>) -> Result<Self, Lost> {
        let options = ConnectOptions::new()
            .with_connect_timeout(TIMEOUT)
            .with_require_leader(true);
        let options = match tls {
            Some(tls) => options.with_tls(tls.clone()),
            None => options,
        };
        let store = Self(Client::connect([endpoint], Some(options)).await?);
        // Whether it is there, and lets us in, shows by the first question.
        match store.get(REPORT).await {
            Err(lost) if tls.is_some() => Err(lost.in_greeting()),
            Err(lost) => Err(lost),
            Ok(_) => Ok(store),
        }
    }

    /// All entries whose keys begin with `prefix`: now, or as they were at `revision`.
    pub async fn list(&self, prefix: &str, revision: Option<i64>) -> Result<Listing, Lost> {
        let options = GetOptions::new()
            .with_prefix()
            .with_revision(revision.unwrap_or(0));
        self.read(prefix, options).await
    }

    /// The names of these keys alone.
    pub async fn list_keys(&self, prefix: &str) -> Result<Listing, Lost> {
        self.read(prefix, GetOptions::new().with_prefix().with_keys_only())
            .await
    }

    /// The value of one key.
    pub async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Lost> {
        let found = self.read(key, GetOptions::new()).await?;
        Ok(found.entries.into_iter().next().map(|(_, value)| value))
    }

    async fn read(&self, key: &str, options: GetOptions) -> Result<Listing, Lost> {
        let (revision, found) = self.found(key, options).await?;
        let entries = found.into_iter().map(KeyValue::into_key_value).collect();
        Ok(Listing { revision, entries })
    }

    /// The same in the order in which the keys were made.
    pub async fn list_oldest_first(&self, prefix: &str) -> Result<Listing, Lost> {
        let (revision, found) = self.oldest_first(prefix).await?;
        let entries = found.into_iter().map(KeyValue::into_key_value).collect();
        Ok(Listing { revision, entries })
    }

    /// Raises that a member has no room left: etcd takes nothing new then.
    pub async fn has_room(&self) -> Result<(), Lost> {
        let mut client = self.0.maintenance_client();
        let alarms = client.alarm(AlarmAction::Get, AlarmType::Nospace, None);
        let alarms = answered(alarms).await?;
        let is_full = |member: &etcd_client::AlarmMember| member.alarm() == AlarmType::Nospace;
        if alarms.alarms().iter().any(is_full) {
            return Err(Lost::full());
        }
        Ok(())
    }

    /// All keys that begin with `prefix`, those made first in front, and the revision when that was so.
    pub(crate) async fn oldest_first(&self, prefix: &str) -> Result<(i64, Vec<KeyValue>), Lost> {
        let options = GetOptions::new()
            .with_prefix()
            .with_sort(SortTarget::Create, SortOrder::Ascend);
        self.found(prefix, options).await
    }

    async fn found(&self, key: &str, options: GetOptions) -> Result<(i64, Vec<KeyValue>), Lost> {
        let mut client = self.0.kv_client().max_decoding_message_size(LONGEST_ANSWER);
        let mut found = answered(client.get(key, Some(options))).await?;
        let revision = found
            .header()
            .map_or(0, etcd_client::ResponseHeader::revision);
        Ok((revision, found.take_kvs()))
    }

    /// Write one key, which goes with `lease`.
    pub async fn put(&self, key: &str, value: Vec<u8>, lease: &Lease) -> Result<(), Lost> {
        let options = PutOptions::new().with_lease(lease.id);
        answered(self.0.kv_client().put(key, value, Some(options))).await?;
        Ok(())
    }

    /// Write one key, which goes with `lease`, unless another holder's is there; whether it is ours.
    pub async fn claim(&self, key: &str, value: Vec<u8>, lease: &Lease) -> Result<bool, Lost> {
        let options = PutOptions::new().with_lease(lease.id);
        let put = TxnOp::put(key, value, Some(options));
        let free = Compare::create_revision(key, CompareOp::Equal, 0);
        let ours = Compare::lease(key, CompareOp::Equal, lease.id);
        Ok(self.transact(free, put.clone()).await? || self.transact(ours, put).await?)
    }

    /// Do this if that is so; whether it was.
    pub(crate) async fn transact(
        &self,
        condition: Compare,
        operation: TxnOp,
    ) -> Result<bool, Lost> {
        let transaction = Txn::new().when([condition]).and_then([operation]);
        Ok(answered(self.0.kv_client().txn(transaction))
            .await?
            .succeeded())
    }

    /// Remove one key, if it is there.
    pub(crate) async fn delete(&self, key: &str) -> Result<(), Lost> {
        answered(self.0.kv_client().delete(key, None)).await?;
        Ok(())
    }

    /// etcd's users and roles.
    pub(crate) fn auth(&self) -> AuthClient {
        self.0.auth_client()
    }

    /// Changes of keys that begin with `prefix`, after `revision`.
    pub async fn watch(&self, prefix: &str, revision: i64) -> Result<Changes, Lost> {
        let options = WatchOptions::new()
            .with_prefix()
            .with_start_revision(revision + 1);
        Ok(Changes(
            answered(self.0.watch_client().watch(prefix, Some(options))).await?,
        ))
    }

    /// The lease in `held` if it still stands, so that a change of the member has nothing go; or a new one in its place.
    /// Kept alive from now on.
    pub async fn lease<'a>(&self, held: &'a mut Option<Lease>) -> Result<&'a mut Lease, Lost> {
        let earlier = match held {
            Some(lease) => self
                .keeper(lease.id)
                .await
                .ok()
                .map(|kept| (lease.id, kept)),
            None => None,
        };
        let (id, kept) = match earlier {
            Some(earlier) => earlier,
            None => self.granted().await?,
        };
        Ok(held.insert(Lease {
            store: self.clone(),
            id,
            kept: tokio::spawn(keep(kept)),
        }))
    }

    async fn granted(&self) -> Result<(i64, Kept), Lost> {
        let grant = answered(self.0.lease_client().grant(LEASE_SECONDS, None)).await?;
        Ok((grant.id(), self.keeper(grant.id()).await?))
    }

    async fn keeper(&self, lease: i64) -> Result<Kept, Lost> {
        answered(self.0.lease_client().keep_alive(lease)).await
    }
}

/// A place among so many, another one for each who asks.
fn anywhere(count: usize) -> usize {
    use std::hash::{BuildHasher as _, RandomState};
    let drawn = RandomState::new().hash_one(std::process::id());
    usize::try_from(drawn % count.max(1) as u64).unwrap_or(0)
}

type Kept = (LeaseKeeper, LeaseKeepAliveStream);

pub(crate) async fn answered<T>(call: impl Future<Output = Result<T, Error>>) -> Result<T, Lost> {
    match timeout(TIMEOUT, call).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Lost::new(format!(
            "etcd: no answer within {} s",
            TIMEOUT.as_secs()
        ))),
    }
}

/// A stream of changes.
pub struct Changes(WatchStream);

impl Changes {
    /// Wait for a change after `revision`.
    pub async fn after(&mut self, revision: i64) -> Result<(), Lost> {
        loop {
            let told = self
                .0
                .message()
                .await?
                .ok_or_else(|| Lost::new("etcd: the watch ended"))?;
            if told.canceled() {
                return Err(Lost::new(format!(
                    "etcd: the watch ended: {}",
                    told.cancel_reason()
                )));
            }
            let latest = told
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

/// A lease: what is written with it goes when its holder does.
pub struct Lease {
    store: Store,
    id: i64,
    kept: JoinHandle<Lost>,
}

impl Lease {
    /// Its number in etcd.
    pub(crate) fn id(&self) -> i64 {
        self.id
    }

    /// Wait until it can no longer be kept alive.
    pub async fn lost(&mut self) -> Lost {
        match (&mut self.kept).await {
            Ok(why) => why,
            Err(error) => Lost::new(error.to_string()),
        }
    }

    /// End it now, with all that was written with it. Without etcd it ends by itself.
    pub async fn give_back(self) {
        self.kept.abort();
        let _ = answered(self.store.0.lease_client().revoke(self.id)).await;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.kept.abort();
    }
}

async fn keep(kept: Kept) -> Lost {
    match keep_alive(kept).await {
        Ok(never) => match never {},
        Err(why) => why,
    }
}

async fn keep_alive((mut keeper, mut answers): Kept) -> Result<Infallible, Lost> {
    loop {
        sleep(KEPT_EVERY).await;
        keeper.keep_alive().await?;
        let left = answered(answers.message())
            .await?
            .map_or(0, |answer| answer.ttl());
        if left <= 0 {
            return Err(Lost::new("etcd: the lease has ended"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn clients_begin_with_any_of_the_members() {
        let drawn: BTreeSet<usize> = (0..200).map(|_| anywhere(3)).collect();
        assert_eq!(drawn, BTreeSet::from([0, 1, 2]));
        assert_eq!((anywhere(0), anywhere(1)), (0, 0));
    }
}
