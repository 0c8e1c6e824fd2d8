//! Names for what a coordinator knows: tickets, providers, units, keys, and the two scopes of a
//! ticket. All are small copies without a lifetime; none is worth anything at another coordinator.

/// One request to start, from its submission until its caller has let go of it.
///
/// The generation tells a ticket from a later one in the same slot, so that a call about a ticket
/// that is gone does nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TicketId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl TicketId {
    /// The slot that the ticket lies in: dense, reused, and below the most tickets that were ever
    /// alive at once. A driver keeps what it knows of a ticket (a waker, say) in a table of its own
    /// under this number; until [`Coordinator::handle_release`](crate::Coordinator::handle_release), or a
    /// [`Step::GiveUp`](crate::Step::GiveUp), no other ticket has it.
    #[must_use]
    pub const fn index(self) -> usize {
        self.index as usize
    }

    /// The name as one number, of which the topmost bit is 0: for a driver that keeps it where it has room for
    /// one number, an atomic one say.
    ///
    /// ```
    /// use admission_core::{Admitted, Config, Coordinator, Instant, Limits, ProviderId, Request, TicketId};
    ///
    /// let mut config = Config::new();
    /// config.providers.push(Limits::new());
    /// let mut coordinator = Coordinator::new(&config)?;
    /// let request = Request::new(ProviderId::new(0));
    /// let Ok(Admitted::Started(ticket)) = coordinator.request(&request, Instant::ZERO) else { unreachable!() };
    /// assert_eq!(TicketId::from_bits(ticket.to_bits()), ticket);
    /// # Ok::<(), admission_core::ConfigError>(())
    /// ```
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        (self.index as u64) << 32 | self.generation as u64
    }

    /// The name that [`to_bits`](Self::to_bits) made this number of. Of any other number it makes the name of a ticket
    /// that there never was, or of somebody else's.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self { index: (bits >> 32) as u32, generation: bits as u32 }
    }
}

/// A named upstream, by a number.
///
/// The n-th of [`Config::providers`](crate::Config::providers) has the number n. The others are the
/// driver's to give, to providers that are added or made on demand (rule L10): it gives each name a
/// number, and may give the number to another name once the core has
/// [forgotten](crate::Event::Forgotten) it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProviderId(pub(crate) u32);

impl ProviderId {
    /// The provider with this number.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// What a log counts: requests, tokens, bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct UnitId(pub(crate) u16);

impl UnitId {
    /// The unit that every coordinator has, of which each ticket costs 1.
    pub const REQUESTS: Self = Self(0);

    /// The unit with this number, below [`Config::units`](crate::Config::units).
    #[must_use]
    pub const fn new(index: u16) -> Self {
        Self(index)
    }

    /// Its number; 0 is requests.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Names one logical call; at most one ticket with it is granted or running (rule L1).
///
/// Compared exactly (rule D3). A driver whose callers name keys by text gives each text a number.
///
/// Tickets are found by a hash of it that anybody can compute, since the core has no source of chance. A driver
/// whose callers choose the numbers scatters them first, by a secret of its own and so that no two become one:
/// otherwise they could be chosen to lie in one place, and a decision would look at all of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key(pub u64);

/// What limits hang on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScopeId {
    /// The client: everything.
    Client,
    /// One provider.
    Provider(ProviderId),
}

/// Which of a ticket's own two scopes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Side {
    /// The client.
    Client,
    /// The ticket's provider.
    Provider,
}
