//! The suite on embassy with its mock clock: every start at its very instant, and an hour takes no time.

use embassy_mock::EmbassyMock;

conformance::mount!(exact EmbassyMock);
