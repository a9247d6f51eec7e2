//! Running means of what requests cost. Pure.

/// Weight of a new sample, once there are many.
const WEIGHT: f64 = 1.0 / 1024.0;
/// Before there are so many, nothing is said.
const NEEDED: u32 = 32;

/// What a request costs, whatever its size.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mean {
    samples: u32,
    mean: f64,
}

impl Mean {
    /// One more.
    pub fn add(&mut self, cost: f64) {
        self.mean += weight(&mut self.samples) * (cost - self.mean);
    }

    /// The mean, if there are enough.
    pub fn get(self) -> Option<f64> {
        (self.samples >= NEEDED).then_some(self.mean)
    }
}

/// What a request costs by its size: a straight line, by the method of least squares.
#[derive(Clone, Copy, Debug, Default)]
pub struct Line {
    samples: u32,
    size: f64,
    cost: f64,
    variance: f64,
    covariance: f64,
}

impl Line {
    /// One more (West 1979, with weights that decay).
    pub fn add(&mut self, size: f64, cost: f64) {
        let weight = weight(&mut self.samples);
        let (off, cost_off) = (size - self.size, cost - self.cost);
        self.size += weight * off;
        self.cost += weight * cost_off;
        self.variance = (1.0 - weight) * (self.variance + weight * off * off);
        self.covariance = (1.0 - weight) * (self.covariance + weight * off * cost_off);
    }

    /// The size at which a request costs so much; `None` where the sizes are too few or differ by less than `spread`
    /// (their standard deviation), or where larger ones cost no more.
    pub fn size_at(self, cost: f64, spread: f64) -> Option<f64> {
        let slope = self.covariance / self.variance;
        let is_known = self.samples >= NEEDED && self.variance >= spread * spread && slope > 0.0;
        is_known.then(|| self.size + (cost - self.cost) / slope)
    }
}

/// Of one more sample: the first ones count alike.
fn weight(samples: &mut u32) -> f64 {
    *samples = samples.saturating_add(1);
    WEIGHT.max(1.0 / f64::from(*samples))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: Option<f64>, expected: f64) -> bool {
        value.is_some_and(|value| (value / expected - 1.0).abs() < 0.01)
    }

    #[test]
    fn a_mean_takes_some_samples_and_forgets() {
        let mut mean = Mean::default();
        for number in 1..NEEDED {
            mean.add(f64::from(number % 2) * 20.0);
            assert_eq!(mean.get(), None);
        }
        mean.add(0.0);
        assert!(near(mean.get(), 10.0));
        (0..10_000).for_each(|_| mean.add(50.0));
        assert!(near(mean.get(), 50.0));
    }

    #[test]
    fn a_line_is_found_and_found_again_when_it_changes() {
        let mut line = Line::default();
        for (base, slope) in [(30.0, 0.001), (100.0, 0.01)] {
            for number in 0..20_000 {
                let size = f64::from(number % 97 * 1000);
                line.add(size, base + slope * size);
            }
            assert!(near(
                line.size_at(base + slope * 70_000.0, 1000.0),
                70_000.0
            ));
        }
    }

    #[test]
    fn where_nothing_can_be_said_nothing_is() {
        let mut few = Line::default();
        (0..NEEDED - 1).for_each(|each| few.add(f64::from(each), f64::from(each)));
        assert_eq!(few.size_at(5.0, 1.0), None);
        let (mut alike, mut falling) = (Line::default(), Line::default());
        for each in 0..100 {
            alike.add(5.0 + f64::from(each % 2), f64::from(each % 2));
            falling.add(f64::from(each), f64::from(100 - each));
        }
        assert_eq!(alike.size_at(5.0, 1.0), None);
        assert_eq!(falling.size_at(5.0, 1.0), None);
    }
}
