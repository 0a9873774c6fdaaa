//! The mixture of the two encoders, and the two parts of the loss.

use fedrecsim_core::math;

/// Returns the means and the variances of the mixture. An encoder's outputs are its means, and behind
/// them the logarithms of its variances.
pub(super) fn mixed(weights: [f32; 2], outputs: [&[f32]; 2]) -> (Vec<f32>, Vec<f32>) {
    let [local, global] = outputs.map(|outputs| outputs.split_at(outputs.len() / 2));
    let mean = local.0.iter().zip(global.0);
    let mean = mean.map(|(local, global)| weights[0] * local + weights[1] * global);
    let part = |weight: f32, log: &f32| weight * weight * math::exp(*log);
    let variance = local.1.iter().zip(global.1);
    let variance =
        variance.map(|(local, global)| part(weights[0], local) + part(weights[1], global));
    (mean.collect(), variance.collect())
}

/// Returns KL(N(mean, variance) || N(0, 1)), summed over all dimensions.
pub(super) fn divergence(mean: &[f32], variance: &[f32]) -> f64 {
    let terms = mean.iter().zip(variance).map(|(mean, variance)| {
        let [mean, variance] = [*mean, *variance].map(f64::from);
        mean * mean + variance - math::ln(variance) - 1.0
    });
    terms.sum::<f64>() / 2.0
}

/// The slopes of the loss for what the mixture has in each dimension: what is drawn of it, its means and
/// its variances.
pub(super) struct Slopes {
    pub latent: Vec<f32>,
    pub mean: Vec<f32>,
    pub variance: Vec<f32>,
}

impl Slopes {
    /// Returns the slopes for the outputs of an encoder of this weight, and that for the weight.
    /// `latent` is what the encoder has drawn.
    pub(super) fn of_encoder(
        &self,
        weight: f32,
        (outputs, latent): (&[f32], &[f32]),
    ) -> (Vec<f32>, f32) {
        let k = latent.len();
        let (mut slopes, mut of_weight) = (vec![0.0; 2 * k], 0.0);
        let (means, logs) = outputs.split_at(k);
        for (d, (mean, log)) in means.iter().zip(logs).enumerate() {
            let (of_latent, of_mean, of_variance) =
                (self.latent[d], self.mean[d], self.variance[d]);
            let variance = math::exp(*log);
            slopes[d] = weight * (of_latent + of_mean);
            // A draw is the mean plus noise times the root of the variance.
            slopes[k + d] = 0.5 * weight * of_latent * (latent[d] - mean)
                + weight * weight * of_variance * variance;
            of_weight +=
                of_latent * latent[d] + of_mean * mean + 2.0 * weight * of_variance * variance;
        }
        (slopes, of_weight)
    }
}

/// Returns minus the sum of the logarithms of the softmax over `items`, and its slope for each logit.
pub(super) fn multinomial(logits: &[f32], items: &[u32]) -> (f64, Vec<f32>) {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f64> = logits
        .iter()
        .map(|logit| math::exp(f64::from(logit - largest)))
        .collect();
    let (sum, count) = (powers.iter().sum::<f64>(), items.len() as f64);
    let slopes = powers.iter().map(|power| (count * power / sum) as f32);
    let mut slopes: Vec<f32> = slopes.collect();
    let mut loss = count * (math::ln(sum) + f64::from(largest));
    for item in items.iter().map(|item| *item as usize) {
        slopes[item] -= 1.0;
        loss -= f64::from(logits[item]);
    }
    (loss, slopes)
}
