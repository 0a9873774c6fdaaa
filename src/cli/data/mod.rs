//! Carries out `data list`, `data fetch` and `data describe`: public data sets by name, from their
//! providers, and what ratings are like.

#[cfg(feature = "fetch")]
mod checksum;
mod describe;
#[cfg(feature = "fetch")]
mod download;
#[cfg(feature = "fetch")]
mod fetch;
mod list;
#[cfg(feature = "fetch")]
mod unpack;

pub(crate) use describe::describe;
#[cfg(feature = "fetch")]
pub(crate) use fetch::fetch;
pub(crate) use list::list;

/// Says that this program was built without what it takes to fetch anything.
#[cfg(not(feature = "fetch"))]
pub(crate) fn fetch(_arguments: &super::args::DataFetchArgs, _visible: bool) -> super::Finished {
    let does = "fetches data sets (`data list NAME` has their addresses for fetching by hand)";
    crate::Error::without_feature("fetch", does).into()
}

#[cfg(all(test, feature = "fetch"))]
mod tests;
