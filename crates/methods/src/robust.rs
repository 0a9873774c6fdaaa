//! Combines what the senders of a row have sent without the extremes.

/// Returns the weighted sums of a row over all senders. In every coordinate, this share of the
/// senders at either end counts as the mean of the rest.
pub(crate) fn trimmed_sums(sent: &[(f64, Vec<f64>)], share: f64) -> Vec<f64> {
    let columns = 0..sent[0].1.len();
    columns
        .map(|column| trimmed_sum(sent, column, share))
        .collect()
}

/// Returns the sum of the weights times the weighted mean of a coordinate, without this share of
/// the smallest and of the largest values. The share is rounded up to a whole number of senders,
/// and at least one of them stays, or two of an even number.
fn trimmed_sum(sent: &[(f64, Vec<f64>)], column: usize, share: f64) -> f64 {
    let mut values: Vec<(f64, f64)> = sent.iter().map(|(w, row)| (row[column], *w)).collect();
    // Equal values are added in the order of their weights, so the order of arrival changes no bit.
    values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let most = (values.len() - 1) / 2;
    let cut = most.min((share * values.len() as f64).ceil() as usize);
    let kept = &values[cut..values.len() - cut];
    let weight = |values: &[(f64, f64)]| values.iter().map(|(_, weight)| weight).sum::<f64>();
    let sum: f64 = kept.iter().map(|(value, weight)| value * weight).sum();
    match weight(kept) {
        0.0 => 0.0,
        of_kept => sum / of_kept * weight(&values),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the trimmed mean of these values, of weight 1.
    fn mean(values: &[f64], share: f64) -> f64 {
        let sent: Vec<(f64, Vec<f64>)> = values.iter().map(|value| (1.0, vec![*value])).collect();
        trimmed_sum(&sent, 0, share) / values.len() as f64
    }

    /// If this fails, a device that sends nonsense moves a row as far as it likes, or a row moves
    /// less the fewer devices send it.
    #[test]
    fn extremes_are_left_out_and_the_rest_keeps_its_scale() {
        let values = [1.0, -1e9, 2.0, 1e9, 3.0];
        assert_eq!(mean(&values, 0.2), 2.0);
        assert_eq!(mean(&values, 0.01), 2.0, "a share is rounded up");
        assert_eq!(mean(&values, 0.5), 2.0, "the median");
        assert_eq!(mean(&[1.0, 4.0, 2.0, 9.0], 0.5), 3.0, "the median of four");
        assert_eq!(mean(&values, 0.0), 6.0 / 5.0);
        assert_eq!((mean(&[7.0], 0.5), mean(&[7.0, 9.0], 0.5)), (7.0, 8.0));
    }

    /// If this fails, the weights of late updates are lost, or the order of arrival changes the
    /// result.
    #[test]
    fn what_is_left_counts_by_weight() {
        let sent = [
            (1.0, vec![4.0]),
            (0.5, vec![1.0]),
            (0.25, vec![-100.0]),
            (2.0, vec![50.0]),
        ];
        let expected = (4.0 + 0.5) / 1.5 * 3.75;
        assert_eq!(trimmed_sum(&sent, 0, 0.25), expected);
        let mut turned = sent;
        turned.reverse();
        assert_eq!(trimmed_sum(&turned, 0, 0.25), expected);
    }
}
