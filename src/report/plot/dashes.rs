//! Cuts a line into dashes, which may begin at any place of their pattern, so that two dashed lines that coincide can be
//! told apart.

/// The lengths of dashes and gaps along a line, in pixels, and how far into a dash the line begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pattern {
    /// The length of a dash.
    pub dash: f64,
    /// The length of a gap.
    pub gap: f64,
    /// The length by which the pattern has advanced where the line begins.
    pub phase: f64,
}

/// Returns the dashes of the line through `points`, each as the points that it goes through.
pub fn dashes(points: &[(i32, i32)], pattern: Pattern) -> Vec<Vec<(i32, i32)>> {
    let Pattern { dash, gap, phase } = pattern;
    let mut found: Vec<Vec<(i32, i32)>> = Vec::new();
    // Where the line is within its pattern.
    let mut at = phase.rem_euclid(dash + gap);
    let mut open = false;
    for ends in points.windows(2) {
        let [from, to] = [ends[0], ends[1]].map(|(x, y)| (f64::from(x), f64::from(y)));
        let length = ((to.0 - from.0) * (to.0 - from.0) + (to.1 - from.1) * (to.1 - from.1)).sqrt();
        let place = |done: f64| {
            let share = if length > 0.0 { done / length } else { 0.0 };
            let between = |from: f64, to: f64| (from + (to - from) * share).round() as i32;
            (between(from.0, to.0), between(from.1, to.1))
        };
        let mut done = 0.0;
        while done < length {
            let in_dash = at < dash;
            let step = (if in_dash { dash } else { dash + gap } - at).min(length - done);
            if in_dash {
                match found.last_mut().filter(|_| open) {
                    Some(last) => last.push(place(done + step)),
                    None => found.push(vec![place(done), place(done + step)]),
                }
            }
            open = in_dash && at + step < dash;
            at += step;
            done += step;
            if at >= dash + gap {
                at = 0.0;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATTERN: Pattern = Pattern { dash: 4.0, gap: 2.0, phase: 0.0 };

    #[test]
    fn dashes_have_their_length_and_the_last_one_is_cut_off() {
        let line = [(0, 0), (14, 0)];
        assert_eq!(dashes(&line, PATTERN), [[(0, 0), (4, 0)], [(6, 0), (10, 0)], [(12, 0), (14, 0)]]);
    }

    /// If this fails, two dashed lines that coincide hide each other.
    #[test]
    fn a_pattern_that_begins_later_fills_the_gaps_of_another() {
        let shifted = dashes(&[(0, 0), (14, 0)], Pattern { phase: 3.0, ..PATTERN });
        assert_eq!(shifted, [[(0, 0), (1, 0)], [(3, 0), (7, 0)], [(9, 0), (13, 0)]]);
    }

    #[test]
    fn a_dash_goes_round_a_corner() {
        let found = dashes(&[(0, 0), (2, 0), (2, 0), (2, 8)], PATTERN);
        assert_eq!(found, [vec![(0, 0), (2, 0), (2, 2)], vec![(2, 4), (2, 8)]]);
        assert!(dashes(&[(3, 3)], PATTERN).is_empty() && dashes(&[], PATTERN).is_empty());
    }
}
