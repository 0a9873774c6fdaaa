//! Steps flat slices of parameters by SGD or Adam, with weight decay and clipping by the norm.

use super::dense::dot;
use crate::kernel::lane_math::{power_of_two, without_tiny};
use crate::per_instruction_set;
use crate::state::StateVisitor;
use fedrecsim_core::error::Result;
use fedrecsim_core::math::{pow, sqrt};

per_instruction_set! {
    /// Subtracts `learning_rate` times (gradient + `weight_decay` times parameter) from every
    /// parameter.
    pub fn sgd_step(
        parameters: &mut [f32],
        gradient: &[f32],
        learning_rate: f32,
        weight_decay: f32,
    ) {
        for (parameter, gradient) in parameters.iter_mut().zip(gradient) {
            *parameter -= learning_rate * (gradient + weight_decay * *parameter);
        }
    }
}

/// Holds the settings of Adam (Kingma and Ba, ICLR 2015), with weight decay as an L2 term of the
/// gradient, as in PyTorch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamSettings {
    /// The step size alpha.
    pub learning_rate: f64,
    /// The decay beta_1 of the first moment.
    pub beta1: f64,
    /// The decay beta_2 of the second moment.
    pub beta2: f64,
    /// The number that is added to the root of the second moment.
    pub epsilon: f64,
    /// The factor of the parameter that is added to the gradient.
    pub weight_decay: f64,
}

impl AdamSettings {
    /// Returns the paper's settings (0.9, 0.999, 1e-8) with this step size and no weight decay.
    pub const fn with_rate(learning_rate: f64) -> Self {
        Self {
            learning_rate,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay: 0.0,
        }
    }
}

/// Holds the moments of Adam for one slice of parameters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AdamMoments {
    /// The first moments m.
    pub first: Vec<f32>,
    /// The second moments v.
    pub second: Vec<f32>,
}

impl AdamMoments {
    /// Returns moments of zero for this many parameters.
    pub fn zeros(parameters: usize) -> Self {
        let [first, second] = [(); 2].map(|()| vec![0.0; parameters]);
        Self { first, second }
    }

    /// Moves `parameters` by step number `number` (from 1) against `gradient`, with the bias
    /// corrections of the paper.
    pub fn step(
        &mut self,
        settings: &AdamSettings,
        number: u64,
        parameters: &mut [f32],
        gradient: &[f32],
    ) {
        adam(settings, number, parameters, gradient, self);
    }
}

/// Holds parameters in one flat slice, their gradient, and what Adam remembers of them.
#[derive(Clone, Debug, Default)]
pub struct AdamParameters {
    /// The parameters.
    pub values: Vec<f32>,
    /// The gradient of the present batch, for the caller to fill.
    pub gradient: Vec<f32>,
    /// The moments.
    pub moments: AdamMoments,
    /// The number of steps that were made.
    pub steps: u64,
}

impl AdamParameters {
    /// Makes parameters that start at `values`. The gradient and the moments are zero.
    pub fn new(values: Vec<f32>) -> Self {
        Self {
            gradient: vec![0.0; values.len()],
            moments: AdamMoments::zeros(values.len()),
            values,
            steps: 0,
        }
    }

    /// Moves all parameters by one step against the gradient.
    pub fn step(&mut self, settings: &AdamSettings) {
        self.steps += 1;
        let (values, gradient) = (&mut self.values, &self.gradient);
        self.moments.step(settings, self.steps, values, gradient);
    }

    /// Visits what a model does not hold, which is the moments and the number of steps.
    ///
    /// # Errors
    /// As [`StateVisitor::values`].
    pub fn visit_memory(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        state.values(&mut self.moments.first)?;
        state.values(&mut self.moments.second)?;
        state.plain(&mut self.steps)
    }
}

/// Returns the magnitudes below which a moment, and a gradient that is squared, count as zero. Their
/// products would be denormals. An epsilon of 1e-8 or more is the same number whether their root is added
/// to it or not; beside a smaller one all of them count.
fn least(epsilon: f64) -> (f32, f32) {
    match epsilon >= 1e-8 {
        true => (power_of_two(-120), power_of_two(-57)),
        false => (0.0, 0.0),
    }
}

per_instruction_set! {
    fn adam(
        settings: &AdamSettings,
        number: u64,
        parameters: &mut [f32],
        gradient: &[f32],
        moments: &mut AdamMoments,
    ) {
        let correction = |beta: f64| 1.0 - pow(beta, number as f64);
        let rate = (settings.learning_rate / correction(settings.beta1)) as f32;
        let root_scale = (1.0 / sqrt(correction(settings.beta2))) as f32;
        let (beta1, beta2) = (settings.beta1 as f32, settings.beta2 as f32);
        let (rest1, rest2) = (1.0 - beta1, 1.0 - beta2);
        let (epsilon, weight_decay) = (settings.epsilon as f32, settings.weight_decay as f32);
        let (least_moment, least_squared) = least(settings.epsilon);
        let moments = moments.first.iter_mut().zip(&mut moments.second);
        for ((parameter, gradient), (m, v)) in parameters.iter_mut().zip(gradient).zip(moments) {
            let gradient = gradient + weight_decay * *parameter;
            let felt = without_tiny(gradient, least_squared);
            *m = beta1 * without_tiny(*m, least_moment) + rest1 * gradient;
            *v = beta2 * without_tiny(*v, least_moment) + rest2 * (felt * felt);
            // The square root of single precision is correctly rounded everywhere.
            *parameter -= rate * *m / (v.sqrt() * root_scale + epsilon);
        }
    }
}

/// Scales the parts of a gradient down, all of them by one factor, so that its norm is at most
/// `limit`.
///
/// Like PyTorch's `clip_grad_norm_`, it adds 1e-6 to the norm before it divides.
pub fn clip<const N: usize>(parts: [&mut [f32]; N], limit: f64) {
    let squares = parts.each_ref().map(|part| f64::from(dot(part, part)));
    let factor = limit / (sqrt(squares.iter().sum()) + 1e-6);
    if factor < 1.0 {
        parts
            .into_iter()
            .for_each(|part| scale(part, factor as f32));
    }
}

/// Multiplies all `values` by `factor`.
pub fn scale(values: &mut [f32], factor: f32) {
    for value in values {
        *value *= factor;
    }
}
