//! The sample of its peers that an agent measures.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use overlay_paths::peer_sample::{Peer, choose_sample};

use crate::meter::Readings;
use crate::name::Name;
use crate::threshold::Threshold;
use crate::window::Reading;

const LAST: u64 = u64::MAX;

/// The size of the sample, and the node's name.
#[derive(Clone, Debug)]
pub struct PeerSample {
    /// Each node has its own random order of peers.
    pub own: Name,
    pub count: usize,
}

impl PeerSample {
    /// The peers whose delays are published: half of them random, the others the nearest known. One of `before`, the previous
    /// choice, is replaced only if another one is nearer by [`Threshold::DEFAULT`].
    pub fn counted(&self, peers: &Readings, before: &BTreeSet<Name>) -> BTreeSet<Name> {
        self.chosen(peers, |peer, reading| match reading {
            Reading::Known(delay) => {
                let far = u64::from(delay.microseconds());
                let Threshold { percent, least_us } = Threshold::DEFAULT;
                let gain = (far * u64::from(percent) / 100).max(least_us.into());
                far.saturating_sub(if before.contains(peer) { gain } else { 0 })
            }
            Reading::Unknown | Reading::Silent => LAST,
        })
    }

    /// The peers to ping: the same random half; then those without a reading, then those that are published.
    pub fn asked(&self, peers: &Readings, counted: &BTreeSet<Name>) -> BTreeSet<Name> {
        self.chosen(peers, |peer, reading| match reading {
            Reading::Unknown => 0,
            _ if counted.contains(peer) => 1,
            _ => LAST,
        })
    }

    fn chosen(&self, peers: &Readings, rank: impl Fn(&Name, Reading) -> u64) -> BTreeSet<Name> {
        let peers = peers.iter().map(|(id, &reading)| Peer {
            id,
            lot: self.lot(id),
            rank: rank(id, reading),
        });
        choose_sample(peers.collect(), self.count)
            .into_iter()
            .cloned()
            .collect()
    }

    /// Depends only on the two names.
    fn lot(&self, peer: &Name) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.own.as_str(), peer.as_str()).hash(&mut hasher);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Delay;

    const COUNT: usize = 6;

    fn known(milliseconds: u64) -> Reading {
        Reading::Known(Delay::of_microseconds(u128::from(milliseconds) * 1000))
    }

    /// n10 to n29, without readings.
    fn peers() -> Readings {
        let each = (10..30).map(|number| (format!("n{number}").parse().unwrap(), Reading::Unknown));
        each.collect()
    }

    fn sample_of(own: &str) -> PeerSample {
        PeerSample {
            own: own.parse().unwrap(),
            count: COUNT,
        }
    }

    /// Lets all pinged peers answer, nNN after NN ms, until no new one is pinged.
    fn settled(sample: &PeerSample, peers: &mut Readings) -> (BTreeSet<Name>, usize) {
        let mut counted = BTreeSet::new();
        for turn in 1.. {
            let asked = sample.asked(peers, &counted);
            assert_eq!(asked.len(), COUNT);
            for (name, reading) in peers.iter_mut().filter(|(name, _)| asked.contains(*name)) {
                *reading = known(name.as_str()[1..].parse().unwrap());
            }
            counted = sample.counted(peers, &counted);
            if asked == counted && !peers.values().any(|each| *each == Reading::Unknown) {
                return (counted, turn);
            }
        }
        unreachable!()
    }

    #[test]
    fn everyone_is_asked_in_turn_until_the_nearest_are_known() {
        let sample = sample_of("n30");
        let mut peers = peers();
        let (counted, turns) = settled(&sample, &mut peers);
        // 17 others, three at a time; then the nearest.
        assert_eq!(turns, 7);
        let by_lot: BTreeSet<Name> = sample.counted(&self::peers(), &BTreeSet::new()).into_iter().collect();
        assert_eq!(by_lot.len(), COUNT);
        let nearest = peers.keys().filter(|name| counted.contains(*name)).take(3);
        assert_eq!(counted.len(), COUNT);
        assert!(nearest.last().is_some_and(|name| name.as_str() < "n16"));
        let other = settled(&sample_of("n31"), &mut self::peers()).0;
        assert_ne!(counted, other, "lots differ");
        assert_eq!(settled(&sample, &mut self::peers()).0, counted, "and stay");
    }

    #[test]
    fn a_peer_takes_the_place_of_another_if_it_is_nearer_by_enough_and_answers() {
        let sample = sample_of("n30");
        let mut peers = peers();
        let counted = settled(&sample, &mut peers).0;
        let outside = peers.keys().find(|name| !counted.contains(*name));
        let outside = outside.unwrap().clone();
        let farthest = counted
            .iter()
            .filter(|name| sample.counted(&peers, &BTreeSet::new()).contains(*name))
            .cloned();
        assert_eq!(farthest.count(), COUNT);
        peers.insert(outside.clone(), known(11));
        assert!(!sample.counted(&peers, &counted).contains(&outside));
        peers.insert(outside.clone(), known(1));
        assert!(sample.counted(&peers, &counted).contains(&outside));
        peers.insert(outside.clone(), Reading::Silent);
        assert!(!sample.counted(&peers, &counted).contains(&outside));
        assert!(!sample.asked(&peers, &counted).contains(&outside));
    }

    #[test]
    fn with_no_more_peers_than_that_all_are_asked() {
        let sample = PeerSample {
            count: 99,
            ..sample_of("n30")
        };
        let peers = peers();
        assert_eq!(sample.asked(&peers, &BTreeSet::new()).len(), 20);
    }
}
