//! Adds to frames what a deployment would send with them and the simulator does not make.

use fedrecsim_core::Direction;
use fedrecsim_core::legs::{Peer, Route};
use fedrecsim_model::codec::FrameParts;
use fedrecsim_scenario::{OverheadsSpec, PaillierSpec, SecureAggregationSpec, TransportSpec};

/// The bytes of a value that is encrypted. Scalars beside the tables count as values.
const VALUE_BYTES: u64 = 4;

/// The overheads of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Overheads {
    transport: Option<TransportSpec>,
    paillier: Option<PaillierSpec>,
    /// The bytes of keys and shares that a client of secure aggregation sends and receives.
    secure_aggregation: Option<(u64, u64)>,
}

impl Overheads {
    /// Returns the overheads of `spec` where this many clients are invited to a round.
    pub(crate) fn new(spec: &OverheadsSpec, invited: u32) -> Self {
        let OverheadsSpec {
            transport,
            secure_aggregation,
            paillier,
        } = *spec;
        let secure_aggregation =
            secure_aggregation.map(|spec| keys_and_shares(&spec, u64::from(invited)));
        Self {
            transport,
            paillier,
            secure_aggregation,
        }
    }

    /// Returns the parts of a frame with what travels with it.
    pub(crate) fn added_to(&self, route: Route, parts: FrameParts) -> FrameParts {
        let mut modelled = 0;
        // Encryption hides content from the server, so only its transfers carry this overhead.
        if route.peer == Peer::Server {
            let ciphertexts = self.paillier.map(|spec| {
                let values = parts.values.div_ceil(VALUE_BYTES);
                (values * u64::from(spec.ciphertext_bytes)).saturating_sub(parts.values)
            });
            let keys = self
                .secure_aggregation
                .map(|(up, down)| match route.direction {
                    Direction::Up => up,
                    Direction::Down => down,
                });
            modelled += ciphertexts.unwrap_or(0) + keys.unwrap_or(0);
        }
        if let Some(spec) = self.transport {
            let packets = (parts.total() + modelled).div_ceil(u64::from(spec.payload_bytes));
            modelled += packets * u64::from(spec.header_bytes);
        }
        FrameParts { modelled, ..parts }
    }
}

/// Returns the bytes that one of `clients` sends and receives (Bonawitz et al., CCS 2017). It sends
/// two public keys to everybody, a share of each of two secrets to each of the others, and in the
/// end one share of everybody's secret to the server.
fn keys_and_shares(spec: &SecureAggregationSpec, clients: u64) -> (u64, u64) {
    let (key, share) = (
        u64::from(spec.public_key_bytes),
        u64::from(spec.share_bytes),
    );
    let others = clients.saturating_sub(1);
    (
        2 * key + 2 * others * share + clients * share,
        2 * others * key + 2 * others * share,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: FrameParts = FrameParts {
        header: 28,
        index: 72,
        values: 2900,
        modelled: 0,
    };

    /// If this fails, packets are counted without those that are not full, or encryption without
    /// the packets it takes.
    #[test]
    fn every_packet_has_a_header_and_carries_all_other_overheads() {
        let transport = Some(TransportSpec {
            payload_bytes: 1000,
            header_bytes: 40,
        });
        let overheads = Overheads::new(
            &OverheadsSpec {
                transport,
                ..OverheadsSpec::default()
            },
            10,
        );
        assert_eq!(overheads.added_to(Route::UPLOAD, PARTS).modelled, 3 * 40);
        assert_eq!(
            overheads
                .added_to(
                    Route::REQUEST,
                    FrameParts {
                        values: 2901,
                        ..PARTS
                    }
                )
                .modelled,
            4 * 40
        );
        let paillier = Some(PaillierSpec {
            ciphertext_bytes: 256,
        });
        let both = Overheads::new(
            &OverheadsSpec {
                transport,
                paillier,
                ..OverheadsSpec::default()
            },
            10,
        );
        let parts = both.added_to(Route::DOWNLOAD, PARTS);
        assert_eq!(
            parts.modelled,
            725 * 252 + 186 * 40,
            "a value of 4 bytes becomes one of 256"
        );
        assert_eq!(
            (parts.header, parts.index, parts.values),
            (28, 72, 2900),
            "what was measured stays"
        );
        assert_eq!(
            both.added_to(Route::REQUEST, PARTS).modelled,
            3 * 40,
            "a third party reads what it is asked"
        );
    }

    /// If this fails, secure aggregation takes other bytes than its authors count: 2 n keys and 5 n
    /// - 4 shares for each.
    #[test]
    fn secure_aggregation_takes_the_keys_and_shares_that_its_authors_count() {
        for clients in [1, 2, 100, 943] {
            let spec = SecureAggregationSpec {
                public_key_bytes: 1000,
                share_bytes: 1,
            };
            let (up, down) = keys_and_shares(&spec, clients);
            assert_eq!(
                up + down,
                1000 * 2 * clients + 5 * clients - 4,
                "{clients} clients"
            );
        }
        let secure_aggregation = Some(SecureAggregationSpec::default());
        let overheads = Overheads::new(
            &OverheadsSpec {
                secure_aggregation,
                ..OverheadsSpec::default()
            },
            100,
        );
        assert_eq!(
            overheads.added_to(Route::UPLOAD, PARTS).modelled,
            64 + 198 * 32 + 3200
        );
        assert_eq!(overheads.added_to(Route::REPLY, PARTS).modelled, 0);
    }

    #[test]
    fn without_overheads_nothing_is_added() {
        assert_eq!(Overheads::default().added_to(Route::UPLOAD, PARTS), PARTS);
    }
}
