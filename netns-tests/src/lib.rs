//! netns-tests
