//! Which of its peers an agent measures that is told to measure only some of them.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use overlay_paths::few::{Peer, few};

use crate::name::Name;
use crate::threshold::Threshold;
use crate::window::Reading;

/// A peer that was among the nearest stays there unless another one is nearer by as much.
const GAIN: Threshold = Threshold {
    percent: 10,
    least_us: 2000,
};
/// Behind all others.
const LAST: u64 = u64::MAX;

/// How many an agent measures, and whose it is.
#[derive(Clone, Debug)]
pub struct Few {
    /// The node's name: each draws lots of its own.
    pub own: Name,
    /// As many of its peers.
    pub count: usize,
}

impl Few {
    /// Whose delays count: half of them by lot, the others the nearest of those that are known. `before` are those that
    /// counted until now.
    pub fn counted<'a>(
        &self,
        peers: impl Iterator<Item = (&'a Name, Reading)>,
        before: &BTreeSet<Name>,
    ) -> BTreeSet<Name> {
        self.chosen(peers, |peer, reading| match reading {
            Reading::Known(delay) => {
                let far = u64::from(delay.microseconds());
                let gain = (far * u64::from(GAIN.percent) / 100).max(GAIN.least_us.into());
                far.saturating_sub(if before.contains(peer) { gain } else { 0 })
            }
            Reading::Unknown | Reading::Silent => LAST,
        })
    }

    /// Who is asked: the same half by lot; the others are those of whom nothing is known yet, then those that count.
    pub fn asked<'a>(
        &self,
        peers: impl Iterator<Item = (&'a Name, Reading)>,
        counted: &BTreeSet<Name>,
    ) -> BTreeSet<Name> {
        self.chosen(peers, |peer, reading| match reading {
            Reading::Unknown => 0,
            _ if counted.contains(peer) => 1,
            _ => LAST,
        })
    }

    fn chosen<'a>(
        &self,
        peers: impl Iterator<Item = (&'a Name, Reading)>,
        rank: impl Fn(&Name, Reading) -> u64,
    ) -> BTreeSet<Name> {
        let peers = peers.map(|(id, reading)| Peer {
            id,
            lot: self.lot(id),
            rank: rank(id, reading),
        });
        few(peers.collect(), self.count)
            .into_iter()
            .cloned()
            .collect()
    }

    /// The same for as long as the two have their names.
    fn lot(&self, peer: &Name) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.own.as_str(), peer.as_str()).hash(&mut hasher);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::values::Delay;

    const COUNT: usize = 6;

    fn known(milliseconds: u64) -> Reading {
        Reading::Known(Delay::of_microseconds(u128::from(milliseconds) * 1000))
    }

    /// n10 to n29, of which nothing is known.
    fn peers() -> BTreeMap<Name, Reading> {
        let each = (10..30).map(|number| (format!("n{number}").parse().unwrap(), Reading::Unknown));
        each.collect()
    }

    fn few_of(own: &str) -> Few {
        Few {
            own: own.parse().unwrap(),
            count: COUNT,
        }
    }

    fn each(peers: &BTreeMap<Name, Reading>) -> impl Iterator<Item = (&Name, Reading)> {
        peers.iter().map(|(name, reading)| (name, *reading))
    }

    /// Let all that are asked answer, nNN after NN ms, until nobody is asked for the first time.
    fn settled(few: &Few, peers: &mut BTreeMap<Name, Reading>) -> (BTreeSet<Name>, usize) {
        let mut counted = BTreeSet::new();
        for turn in 1.. {
            let asked = few.asked(each(peers), &counted);
            assert_eq!(asked.len(), COUNT);
            for (name, reading) in peers.iter_mut().filter(|(name, _)| asked.contains(*name)) {
                *reading = known(name.as_str()[1..].parse().unwrap());
            }
            counted = few.counted(each(peers), &counted);
            if asked == counted && !peers.values().any(|each| *each == Reading::Unknown) {
                return (counted, turn);
            }
        }
        unreachable!()
    }

    #[test]
    fn everyone_is_asked_in_turn_until_the_nearest_are_known() {
        let few = few_of("n30");
        let mut peers = peers();
        let (counted, turns) = settled(&few, &mut peers);
        // 17 others, three at a time; then the nearest.
        assert_eq!(turns, 7);
        let by_lot: BTreeSet<Name> = few
            .counted(each(&self::peers()), &BTreeSet::new())
            .into_iter()
            .collect();
        assert_eq!(by_lot.len(), COUNT);
        let nearest = peers.keys().filter(|name| counted.contains(*name)).take(3);
        assert_eq!(counted.len(), COUNT);
        assert!(nearest.last().is_some_and(|name| name.as_str() < "n16"));
        let other = settled(&few_of("n31"), &mut self::peers()).0;
        assert_ne!(counted, other, "lots differ");
        assert_eq!(settled(&few, &mut self::peers()).0, counted, "and stay");
    }

    #[test]
    fn a_peer_takes_the_place_of_another_if_it_is_nearer_by_enough_and_answers() {
        let few = few_of("n30");
        let mut peers = peers();
        let counted = settled(&few, &mut peers).0;
        let outside = peers.keys().find(|name| !counted.contains(*name));
        let outside = outside.unwrap().clone();
        let farthest = counted
            .iter()
            .filter(|name| few.counted(each(&peers), &BTreeSet::new()).contains(*name))
            .cloned();
        assert_eq!(farthest.count(), COUNT);
        peers.insert(outside.clone(), known(11));
        assert!(!few.counted(each(&peers), &counted).contains(&outside));
        peers.insert(outside.clone(), known(1));
        assert!(few.counted(each(&peers), &counted).contains(&outside));
        peers.insert(outside.clone(), Reading::Silent);
        assert!(!few.counted(each(&peers), &counted).contains(&outside));
        assert!(!few.asked(each(&peers), &counted).contains(&outside));
    }

    #[test]
    fn with_no_more_peers_than_that_all_are_asked() {
        let few = Few {
            count: 99,
            ..few_of("n30")
        };
        let peers = peers();
        assert_eq!(few.asked(each(&peers), &BTreeSet::new()).len(), 20);
    }
}
