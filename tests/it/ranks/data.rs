//! Data sets of which every rank holds the ratings of its own users.
