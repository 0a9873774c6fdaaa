//! Draws the links of users: rates, latency, and which participations a dropout ends.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::{Conditions, Speed};
use fedrecsim_core::{
    BitsPerSecond, Bytes, Direction, InvitationId, PortableDraws, Purpose, Result, SimDuration,
    SimTime, Streams, UserId, math,
};
use fedrecsim_scenario::{NetworkSpec, RatesSpec, ServerLinkSpec, Sharing};

mod tcp;
#[cfg(test)]
mod tests;
mod trace;

pub(super) use trace::LinkTrace;
use trace::{Carried, Rates, bytes_of};

/// The share of a link that a transfer may have beside others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkShare {
    /// The rate that it does not exceed.
    pub cap: BitsPerSecond,
    /// Its part of what all share, in proportion to the weights of the others.
    pub weight: NonZeroU32,
}

impl LinkShare {
    /// Returns the share of a transfer that shares equally with others and goes no faster than
    /// `cap`.
    pub const fn equal(cap: BitsPerSecond) -> Self {
        let weight = NonZeroU32::MIN;
        Self { cap, weight }
    }
}

/// A model of how transfers share the server's link: the four numbers that it decides, which by
/// default are those of equal shares. `latency` is one-way.
trait SharingModel {
    /// Returns how long a transfer takes before its first byte leaves.
    fn start_up(&self, _latency: SimDuration) -> SimDuration {
        SimDuration::ZERO
    }

    /// Returns the time from the departure of the last byte to its arrival.
    fn latency_after(&self, latency: SimDuration) -> SimDuration {
        latency
    }

    /// Returns what a transfer may have of the server's link, whose own rate is `server`, if the
    /// user's link has `rate`.
    fn share(
        &self,
        rate: BitsPerSecond,
        _server: Option<BitsPerSecond>,
        _latency: SimDuration,
    ) -> LinkShare {
        LinkShare::equal(rate)
    }

    /// Returns what transfers share of a link of `rate`.
    fn capacity(&self, rate: BitsPerSecond) -> BitsPerSecond {
        rate
    }
}

/// Transfers share the server's link alike; their latency does not matter.
struct Equal;

impl SharingModel for Equal {}

/// Returns the model that a scenario names.
fn model_of(sharing: Sharing) -> &'static dyn SharingModel {
    match sharing {
        Sharing::Equal => &Equal,
        Sharing::Tcp => &tcp::Tcp,
    }
}

/// Describes one direction of a user's link during one transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    rates: Rates,
    /// One-way latency.
    latency: SimDuration,
    sharing: Sharing,
    /// The rate of the server's link in this direction; `None` is no limit.
    server: Option<BitsPerSecond>,
}

impl Link {
    /// Makes a link of a rate that does not change, beside a server without a limit. `latency` is
    /// one-way.
    pub fn constant(rate: BitsPerSecond, latency: SimDuration) -> Self {
        Self {
            rates: Rates::Constant(rate),
            latency,
            sharing: Sharing::Equal,
            server: None,
        }
    }

    /// Returns the link with transfers that share as `sharing` says with others on the server's
    /// link, whose rate is `server`.
    pub fn sharing(self, sharing: Sharing, server: Option<BitsPerSecond>) -> Self {
        Self {
            sharing,
            server,
            ..self
        }
    }

    /// Returns how long a transfer takes before its first byte leaves.
    pub fn start_up(&self) -> SimDuration {
        model_of(self.sharing).start_up(self.latency)
    }

    /// Returns the time from the departure of the last byte to its arrival.
    pub fn latency_after(&self) -> SimDuration {
        model_of(self.sharing).latency_after(self.latency)
    }

    /// Returns what a transfer may have of the server's link at the instant `at`.
    pub fn share_at(&self, at: SimTime) -> LinkShare {
        self.share(self.rates.at(at).rate)
    }

    /// Returns the first instant after `at` when the share may be another one; `None` if it never
    /// is.
    pub fn changes_after(&self, at: SimTime) -> Option<SimTime> {
        self.rates.at(at).until
    }

    /// Returns when the last byte of a frame of `size` arrives if the server holds nobody back and
    /// the transfer begins at `began`.
    pub fn arrival(&self, began: SimTime, size: Bytes) -> SimTime {
        match self.rates {
            Rates::Constant(rate) => {
                began
                    + (self.start_up() + self.latency_after() + self.share(rate).cap.time_for(size))
            }
            Rates::Traced { .. } => {
                self.carry(began, size, SimTime::END).until + self.latency_after()
            }
        }
    }

    /// Returns how many bytes of a frame of `size` have left the sender by `now` if the transfer
    /// began at `began`, which is what a transfer loses that ends then.
    pub fn carried(&self, size: Bytes, began: SimTime, now: SimTime) -> Bytes {
        let carried = match self.rates {
            Rates::Constant(rate) => {
                let elapsed = now.since(began + self.start_up()).as_nanos();
                bytes_of(u128::from(elapsed) * u128::from(self.share(rate).cap.get()))
            }
            Rates::Traced { .. } => bytes_of(self.carry(began, size, now).work),
        };
        carried.min(size)
    }

    fn carry(&self, began: SimTime, size: Bytes, until: SimTime) -> Carried {
        self.rates
            .carry(began + self.start_up(), size, until, |rate| {
                self.share(rate).cap
            })
    }

    fn share(&self, rate: BitsPerSecond) -> LinkShare {
        model_of(self.sharing).share(rate, self.server, self.latency)
    }
}

/// Returns what transfers in this direction share of the server's link; `None` is no limit.
pub fn shared_capacity(network: &NetworkSpec, direction: Direction) -> Option<BitsPerSecond> {
    let rate = server_rate(&network.server, direction);
    rate.map(|rate| model_of(network.sharing).capacity(rate))
}

fn server_rate(server: &ServerLinkSpec, direction: Direction) -> Option<BitsPerSecond> {
    let mbit_per_s = match direction {
        Direction::Up => server.uplink_mbit_per_s,
        Direction::Down => server.downlink_mbit_per_s,
    };
    mbit_per_s.map(BitsPerSecond::from_mbit_f64)
}

/// The links of all users.
#[derive(Clone, Debug)]
pub(super) struct Links {
    network: NetworkSpec,
    trace: Option<Arc<LinkTrace>>,
    streams: Streams,
}

impl Links {
    /// Makes the links. `trace` is what was read of the file that `network` names, if it names one.
    ///
    /// # Errors
    /// [`Error::Usage`](fedrecsim_core::Error::Usage) if it names a file and that was not read.
    pub(super) fn new(
        network: &NetworkSpec,
        trace: Option<Arc<LinkTrace>>,
        streams: Streams,
    ) -> Result<Self> {
        let trace = match &network.rates {
            RatesSpec::Trace { path, .. } => Some(super::was_read(trace, path)?),
            RatesSpec::Lognormal(_) => None,
        };
        Ok(Self {
            network: network.clone(),
            trace,
            streams,
        })
    }

    /// Draws link and dropout of one participation; the speed of the device is passed on.
    pub(super) fn conditions(
        &self,
        user: UserId,
        invitation_id: InvitationId,
        speed: Speed,
    ) -> Conditions {
        let [down_mbit, up_mbit, rtt_ms] = self.link_of(user);
        let network = &self.network;
        let (number, streams) = (u64::from(invitation_id.0), self.streams);
        let of_participation = |purpose| streams.stream(purpose, u64::from(user.0), number);
        let mut transfer = of_participation(Purpose::Transfer);
        let transfer_log_sigma = match &network.rates {
            RatesSpec::Lognormal(rates) => rates.transfer_log_sigma,
            RatesSpec::Trace { .. } => 0.0,
        };
        let mut vary =
            |mbit: f64| BitsPerSecond::from_mbit_f64(transfer.lognormal(mbit, transfer_log_sigma));
        let latency = SimDuration::from_millis_f64(rtt_ms / 2.0);
        let mut link = |mbit, direction| {
            let rates = match &self.trace {
                None => Rates::Constant(vary(mbit)),
                Some(trace) => Rates::Traced {
                    trace: Arc::clone(trace),
                    user,
                    direction,
                },
            };
            Link {
                rates,
                latency,
                sharing: network.sharing,
                server: server_rate(&network.server, direction),
            }
        };
        let (down, up) = (
            link(down_mbit, Direction::Down),
            link(up_mbit, Direction::Up),
        );
        let draw_dropout = || {
            let mut dropout = of_participation(Purpose::Dropout);
            (dropout.open_unit() < network.dropout).then(|| dropout.open_unit())
        };
        Conditions {
            down,
            up,
            speed,
            dropout_at: (network.dropout > 0.0).then(draw_dropout).flatten(),
        }
    }

    /// Draws downlink and uplink in Mbit/s, which a trace takes the place of, and the round-trip
    /// time in ms.
    fn link_of(&self, user: UserId) -> [f64; 3] {
        let network = &self.network;
        let mut stream = self.streams.stream(Purpose::Link, u64::from(user.0), 0);
        let (first, second) = (stream.standard_normal(), stream.standard_normal());
        let lognormal =
            |median: f64, log_sigma: f64, normal: f64| median * math::exp(log_sigma * normal);
        let [down, up] = match &network.rates {
            RatesSpec::Trace { .. } => [0.0; 2],
            RatesSpec::Lognormal(rates) => {
                let correlation = rates.correlation;
                let correlated =
                    correlation * first + math::sqrt(1.0 - correlation * correlation) * second;
                [
                    lognormal(
                        rates.downlink_median_mbit_per_s,
                        rates.downlink_log_sigma,
                        first,
                    ),
                    lognormal(
                        rates.uplink_median_mbit_per_s,
                        rates.uplink_log_sigma,
                        correlated,
                    ),
                ]
            }
        };
        let rtt_ms = stream.lognormal(network.rtt_ms, network.rtt_log_sigma);
        [down, up, rtt_ms]
    }
}
