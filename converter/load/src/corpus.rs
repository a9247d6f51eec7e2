//! Objects whose names say what is in them: `/FOLDER/LENGTH-SEED` has LENGTH bytes of the pattern SEED. Both ends know all of
//! them by a few numbers.

use clap::Args;

use crate::pattern::Pattern;
use crate::random::Random;

/// Which objects there are.
#[derive(Args, Clone, Debug)]
pub struct Corpus {
    /// The folders that objects are in.
    #[arg(long, required = true, value_name = "NAME,...", value_delimiter = ',')]
    pub folders: Vec<String>,
    /// How many there are in each.
    #[arg(long, default_value_t = 200, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub objects: u64,
    /// Their lengths are below 2 to this number; all magnitudes are as usual.
    #[arg(long, default_value_t = 18, value_name = "BITS", value_parser = clap::value_parser!(u64).range(1..=40))]
    pub bits: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object<'a> {
    pub folder: &'a str,
    pub length: u64,
    seed: u64,
}

impl Corpus {
    /// The one with this number, from 0 on, in a folder.
    pub fn object<'a>(&self, folder: &'a str, number: u64) -> Object<'a> {
        let name = folder
            .bytes()
            .fold(0, |sum: u64, byte| sum.wrapping_mul(31) + u64::from(byte));
        let mut random = Random::new(name.wrapping_mul(1 << 20).wrapping_add(number));
        Object {
            folder,
            length: random.any_size(self.bits),
            seed: random.next(),
        }
    }

    pub fn longest<'a>(&self, folder: &'a str) -> Object<'a> {
        (0..self.objects)
            .map(|number| self.object(folder, number))
            .max_by_key(|object| object.length)
            .expect("there is at least one")
    }

    pub fn any(&self, random: &mut Random) -> Object<'_> {
        let folder = random.below(self.folders.len() as u64);
        let folder = &self.folders[usize::try_from(folder).unwrap_or(0)];
        self.object(folder, random.below(self.objects))
    }
}

impl Object<'_> {
    /// Below a server's root, with a slash before it.
    pub fn path(&self) -> String {
        format!("/{}/{}-{}", self.folder, self.length, self.seed)
    }

    pub fn pattern(&self) -> Pattern {
        Pattern::new(self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corpus() -> Corpus {
        Corpus {
            folders: vec!["a".to_owned(), "b".to_owned()],
            objects: 100,
            bits: 18,
        }
    }

    #[test]
    fn every_object_has_a_content_of_its_own() {
        let corpus = corpus();
        let all = |folder| (0..100).map(move |number| corpus.object(folder, number).seed);
        let seeds: std::collections::BTreeSet<_> = all("a").collect();
        assert_eq!(seeds.len(), 100);
        let corpus = self::corpus();
        assert!((0..100).all(|number| !seeds.contains(&corpus.object("b", number).seed)));
    }

    #[test]
    fn any_object_is_one_of_those_that_were_written() {
        let corpus = corpus();
        let mut random = Random::new(7);
        for _ in 0..1000 {
            let any = corpus.any(&mut random);
            assert!(any.length < 1 << 18);
            assert!((0..100).any(|number| corpus.object(any.folder, number) == any));
        }
    }
}
