//! The mutants that no test can notice, each with the reason: nothing that can be seen differs.
//!
//! Owns the explanations and nothing else. A mutant that *could* be noticed has no place here: it wants a test. Names
//! are without lines; where a file has several of one name, they are counted from its top.

use super::Explained;

pub(crate) const EXPLAINED: &[Explained] = &[
    Explained {
        why: "A short cut past a longer way that comes to the same: it is taken less often, or more often \
              and finds nothing to do.",
        mutants: &[
            "crates/admission-core/src/coordinator.rs: replace > with >= in Coordinator::cooldown #2",
            "crates/admission-core/src/coordinator/look.rs: replace < with == in Coordinator::poll_timeout #1",
            "crates/admission-core/src/coordinator/look.rs: replace < with <= in Coordinator::poll_timeout #1",
            "crates/admission-core/src/coordinator/look.rs: replace < with <= in Coordinator::poll_timeout #2",
            "crates/admission-core/src/coordinator/time.rs: replace < with <= in Coordinator::act_on_time",
            "crates/admission-core/src/coordinator/take_back.rs: replace > with >= in Coordinator::take_back_grants",
            "crates/admission-core/src/coordinator/grants.rs: replace && with || in Coordinator::grant_due",
            "crates/admission-core/src/coordinator/grants.rs: replace < with <= in Coordinator::grant_due",
            "crates/admission-core/src/queue/costs.rs: replace Queue::has_more_units -> bool with true",
            "crates/admission-core/src/queue/costs.rs: replace > with >= in Queue::has_more_units",
            "crates/admission-core/src/queue/lanes.rs: replace Queue::is_of_interest -> bool with true",
            "crates/admission-core/src/queue/lanes.rs: replace && with || in Queue::is_of_interest",
            "crates/admission-core/src/queue/lanes.rs: replace Queue::note_fleeting with ()",
            "crates/admission-core/src/queue/mod.rs: replace > with >= in Queue::create",
            "crates/admission-core/src/queue/costs.rs: replace < with <= in Queue::note_costs",
            "crates/admission-core/src/timed.rs: replace < with <= in Timed::set #2",
            "crates/admission-core/src/tournament.rs: replace > with >= in Tournament::try_reserve",
            "crates/admission-core/src/tournament.rs: replace match guard *own != key with true in Tournament::change",
            "crates/admission-core/src/tournament.rs: replace < with <= in Tournament::shrink",
            "crates/admission-core/src/scope.rs: replace < with > in Scope::pace",
            "crates/admission-core/src/pace/sliding_log.rs: replace SlidingLog::start_easily -> bool with false",
            "crates/admission-core/src/pace/sliding_log.rs: replace < with > in SlidingLog::start_easily",
            "crates/admission-core/src/pace/sliding_log.rs: replace SlidingLog::is_easy -> bool with false",
            "crates/admission-core/src/pace/sliding_log.rs: replace < with > in SlidingLog::room",
            "crates/admission-core/src/pace/sliding_log.rs: replace SlidingLog::start_in_turn -> Option<Instant> with None",
            "crates/admission-core/src/pace/sliding_log.rs: replace >= with < in SlidingLog::start_in_turn",
            "crates/admission-core/src/pace/sliding_log.rs: replace > with >= in SlidingLog::start_in_turn #1",
            "crates/admission-core/src/pace/sliding_log.rs: replace > with >= in SlidingLog::start_in_turn #2",
            "crates/admission-core/src/pace/sliding_log.rs: replace <= with > in SlidingLog::start",
            "crates/admission-core/src/queue/key_table.rs: replace > with >= in KeyTable::try_reserve",
            "crates/admission-rt/src/abort.rs: replace && with || in Inner::look",
            "crates/admission-rt/src/abort.rs: replace AbortSignal::is -> bool with false",
            "crates/admission-rt/src/stream/work.rs: replace || with && in Shop<C, T, F, E>::work",
            "crates/admission-rt/src/alarms.rs: replace > with >= in Alarms::lose",
            "crates/admission-rt/src/alarms.rs: replace Alarms::look -> (bool, bool) with (true, true)",
            "crates/admission-rt/src/alarms.rs: replace Alarms::look -> (bool, bool) with (false, true)",
            "crates/admission-rt/src/alarms.rs: replace Alarms::any_lost -> bool with true",
            "crates/admission-rt/src/alarms.rs: replace Entry::is_of_use -> bool with true",
            "crates/admission-rt/src/alarms.rs: replace > with >= in Entry::is_of_use",
            "crates/admission-rt/src/alarms.rs: replace < with <= in Entry::is_of_use",
            "crates/admission-rt/src/attention.rs: replace Attention::is_needed -> bool with true",
            "crates/admission-rt/src/attention.rs: replace > with >= in Attention::is_needed",
            "crates/admission-rt/src/attention.rs: replace Attention::is_unusual -> bool with true",
            "crates/admission-rt/src/attention.rs: replace | with &",
            "crates/admission-rt/src/attention.rs: replace Attention::is_watched -> bool with true",
            "crates/admission-rt/src/attention.rs: replace State::is_quiet -> bool with false",
            "crates/admission-rt/src/attention.rs: replace &= with |= in State::is_quiet",
            "crates/admission-rt/src/attention.rs: replace > with >= in State::seen_around #1",
            "crates/admission-rt/src/attention.rs: replace > with >= in State::seen_around #2",
            "crates/admission-rt/src/attention.rs: replace > with >= in State::mark #1",
            "crates/admission-rt/src/attention.rs: replace > with >= in State::mark #2",
            "crates/admission-rt/src/guests.rs: replace == with != in Guests::leave",
            "crates/admission-rt/src/sleep.rs: replace Sleepers::must_wake -> bool with true",
            "crates/admission-rt/src/waiters.rs: replace Seats::must_wake -> bool with true",
            "crates/admission-rt/src/waiting.rs: replace LongWaits::must_tell -> bool with true",
            "crates/admission-rt/src/stream/engine.rs: replace > with >= in Engine<S, W, U, E>::poll_next",
        ],
    },
    Explained {
        why: "What has left a log's window is dropped earlier or later, and is not counted either way. Only \
              since when nothing is left in the log differs, and so, of several providers that are gone, which \
              is told first as `Forgotten`: that is not promised.",
        mutants: &[
            "crates/admission-core/src/pace/sliding_log.rs: replace SlidingLog::may_be_unsettled -> bool with true",
            "crates/admission-core/src/pace/sliding_log.rs: replace SlidingLog::vacant -> u64 with 0",
            "crates/admission-core/src/pace/sliding_log.rs: replace SlidingLog::left -> u64 with 0",
            "crates/admission-core/src/pace/sliding_log.rs: replace && with || in SlidingLog::next_room",
            "crates/admission-core/src/pace/sliding_log.rs: replace <= with > in SlidingLog::next_room",
            "crates/admission-core/src/pace/sliding_log.rs: replace SlidingLog::reckon with ()",
            "crates/admission-core/src/pace/sliding_log.rs: replace SlidingLog::reckon_plain with ()",
            "crates/admission-core/src/pace/sliding_log.rs: replace <= with > in SlidingLog::start_in_turn",
            "crates/admission-core/src/pace/sliding_log.rs: replace SlidingLog::make_room with ()",
            "crates/admission-core/src/pace/sliding_log.rs: replace < with <= in SlidingLog::spend",
        ],
    },
    Explained {
        why: "The two are never equal: no two tickets have the same place in the order, no two members the \
              same number, and what is equal has been dealt with in the line above.",
        mutants: &[
            "crates/admission-core/src/heap.rs: replace < with <= in Heap::set",
            "crates/admission-core/src/heap.rs: replace < with <= in is_before #2",
            "crates/admission-core/src/queue/sharing.rs: replace < with <= in Queue::stand_among",
            "crates/admission-core/src/pace/sliding_log.rs: replace > with >= in SlidingLog::spend",
            "crates/admission-core/src/queue/line.rs: replace < with <= in Line::insert #1",
            "crates/admission-core/src/queue/line.rs: replace < with <= in Line::insert #2",
            "crates/admission-core/src/queue/line.rs: replace < with <= in Line::insert #3",
            "crates/admission-core/src/queue/line.rs: replace < with <= in Line::find_first_of_both",
            "crates/admission-core/src/queue/tree.rs: replace < with <= in Tree::insert #1",
            "crates/admission-core/src/queue/tree.rs: replace < with <= in Tree::insert #2",
            "crates/admission-core/src/queue/tree.rs: replace < with <= in Tree::insert #3",
            "crates/admission-core/src/queue/tree.rs: replace < with <= in Tree::insert #4",
            "crates/admission-core/src/queue/tree.rs: replace > with >= in Tree::remove",
            "crates/admission-rt/src/guests.rs: replace > with >= in Table::note",
        ],
    },
    Explained {
        why: "No two pacers of a scope have the same number, and what opens at the origin is open.",
        mutants: &["crates/admission-core/src/verdict.rs: replace < with <= in Folded::close_until"],
    },
    Explained {
        why: "No bit is in both, so that or is exclusive or.",
        mutants: &[
            "crates/admission-core/src/refusal.rs: replace | with ^ in Hold::to_code #1",
            "crates/admission-core/src/refusal.rs: replace | with ^ in Hold::to_code #2",
            "crates/admission-core/src/queue/keys.rs: replace | with ^ in Keys::remove_shared",
            "crates/admission-core/src/queue/keys.rs: replace | with ^ in Keys::share",
            "crates/admission-core/src/queue/keys.rs: replace | with ^ in group_hash",
            "crates/admission-core/src/queue/slab.rs: replace | with ^ in Slot::since",
            "crates/admission-core/src/queue/slab.rs: replace | with ^ in Slot::grant",
            "crates/admission-core/src/queue/slab.rs: replace | with ^ in Flags::is_exempt_somewhere",
            "crates/admission-rt/src/alarms.rs: replace | with ^ in Booking::counted",
            "crates/admission-rt/src/attention.rs: replace | with ^",
            "crates/admission-rt/src/attention.rs: replace | with ^ in Attention::needs_clock #1",
            "crates/admission-rt/src/attention.rs: replace | with ^ in Attention::needs_clock #2",
            "crates/admission-rt/src/attention.rs: replace | with ^ in State::seen_around #8",
            "crates/admission-rt/src/attention.rs: replace | with ^ in State::seen_around #9",
            "crates/admission-rt/src/attention.rs: replace | with ^ in State::seen_around #10",
            "crates/admission-rt/src/attention.rs: replace | with ^ in State::seen_around #11",
            "crates/admission-rt/src/attention.rs: replace | with ^ in State::seen_around #12",
            "crates/admission-rt/src/key.rs: replace | with ^ in Keys::intern",
        ],
    },
    Explained {
        why: "Only with two thousand million tickets in one coordinator would it differ.",
        mutants: &[
            "crates/admission-core/src/queue/mod.rs: replace Queue::has_room_for_ticket -> bool with true",
            "crates/admission-core/src/queue/slab.rs: replace Slab::has_room -> bool with true",
            "crates/admission-core/src/queue/slab.rs: replace != with == in Slab::has_room",
            "crates/admission-core/src/queue/slab.rs: replace >> with <<",
            "crates/admission-core/src/queue/slab.rs: replace < with <= in Slab::has_room",
        ],
    },
    Explained {
        why: "Only whether the number is even is asked, and a sum is when the difference is.",
        mutants: &[
            "crates/admission-core/src/pace/sliding_log.rs: replace - with + in SlidingLog::is_unsettled",
        ],
    },
    Explained {
        why: "Of several that are first at the same instant or by the same number any will do: the order of \
              grants does not come from here.",
        mutants: &[
            "crates/admission-core/src/tournament.rs: replace < with <= in Tournament::change",
            "crates/admission-core/src/tournament.rs: replace < with <= in Tournament::winner_below",
        ],
    },
    Explained {
        why: "The provider that was put in last is kept beside the others, with the instant never once it is \
              out. Who is first is asked only while somebody is in, and one who is out is not among the \
              others either: to take it out there changes nothing.",
        mutants: &[
            "crates/admission-core/src/timed.rs: replace < with <= in Timed::first",
            "crates/admission-core/src/timed.rs: replace < with <= in Timed::remove",
        ],
    },
    Explained {
        why: "A scatter of numbers over places: a worse one may be slower, and finds the same.",
        mutants: &[
            "crates/admission-core/src/queue/key_table.rs: replace >> with << in hash",
            "crates/admission-core/src/queue/tree.rs: replace ^ with | in priority",
            "crates/admission-core/src/queue/tree.rs: replace ^ with & in priority",
            "crates/admission-core/src/queue/tree.rs: replace >> with << in priority",
        ],
    },
    Explained {
        why: "How much room is made or kept is a matter of measure; the bounds of what may be kept and asked \
              for are tested.",
        mutants: &[
            "crates/admission-core/src/coordinator/places.rs: replace > with == in Coordinator::forget",
            "crates/admission-core/src/coordinator/places.rs: replace > with >= in Coordinator::forget",
            "crates/admission-core/src/coordinator/places.rs: replace * with + in Coordinator::forget #2",
            "crates/admission-core/src/coordinator/places.rs: replace * with / in Coordinator::forget #2",
            "crates/admission-core/src/tournament.rs: replace * with / in Tournament::try_reserve",
            "crates/admission-core/src/tournament.rs: replace - with + in Tournament::try_reserve #1",
            "crates/admission-core/src/tournament.rs: replace - with + in Tournament::try_reserve #2",
            "crates/admission-core/src/tournament.rs: replace * with + in Tournament::try_reserve",
            "crates/admission-core/src/queue/key_table.rs: replace - with + in KeyTable::try_reserve",
            "crates/admission-core/src/queue/key_table.rs: replace * with + in KeyTable::insert",
            "crates/admission-core/src/queue/key_table.rs: replace + with * in KeyTable::grow #1",
            "crates/admission-core/src/queue/key_table.rs: replace / with * in KeyTable::grow",
            "crates/admission-core/src/queue/keys.rs: replace - with + in Pool<T>::insert #1",
            "crates/admission-rt/src/waiters.rs: replace - with + in Waiters::make_room",
            "crates/admission-rt/src/waiting.rs: replace + with * in LongWaits::note #1",
            "crates/admission-rt/src/waiting.rs: replace * with + in LongWaits::note",
            "crates/admission-rt/src/waiting.rs: replace * with / in LongWaits::note",
            "crates/admission-rt/src/waiting.rs: replace + with * in LongWaits::note #2",
            "crates/admission-rt/src/guests.rs: replace && with || in Table::free",
            "crates/admission-rt/src/guests.rs: replace > with >= in Table::free #3",
            "crates/admission-rt/src/guests.rs: replace < with <= in Table::free",
            "crates/admission-rt/src/guests.rs: replace < with > in Table::free",
            "crates/admission-rt/src/guests.rs: replace / with * in Table::free",
            "crates/admission-rt/src/guests.rs: replace * with + in Table::free #2",
            "crates/admission-rt/src/guests.rs: replace * with / in Table::free #2",
            "crates/admission-rt/src/in_force.rs: replace && with || in InForce::remove",
            "crates/admission-rt/src/in_force.rs: replace > with >= in InForce::remove",
            "crates/admission-rt/src/in_force.rs: replace < with <= in InForce::remove",
            "crates/admission-rt/src/in_force.rs: replace < with > in InForce::remove",
            "crates/admission-rt/src/in_force.rs: replace / with * in InForce::remove",
            "crates/admission-rt/src/in_force.rs: replace * with + in InForce::remove",
            "crates/admission-rt/src/in_force.rs: replace * with / in InForce::remove",
            "crates/admission-rt/src/key.rs: replace && with || in <impl Drop for KeyGuard>::drop",
            "crates/admission-rt/src/key.rs: replace > with >= in <impl Drop for KeyGuard>::drop",
        ],
    },
    Explained {
        why: "When room is given back is a matter of measure. Entries leave one by one, so that most often the rest \
              is an eighth of the room before it is less; but a map's capacity falls with the traces of those who \
              left, and jumps back when they are swept. Where that skips the eighth, the room is kept for longer.",
        mutants: &[
            "crates/admission-rt/src/guests.rs: replace < with == in Table::free",
            "crates/admission-rt/src/in_force.rs: replace < with == in InForce::remove",
        ],
    },
    Explained {
        why: "Above the root there is a place that nobody reads, and nobody in it has a lesser key than the \
              root's.",
        mutants: &["crates/admission-core/src/tournament.rs: replace > with >= in Tournament::change"],
    },
    Explained {
        why: "A ticket at the head or tail may as well stand in the tree: the first of both is looked up all \
              the same.",
        mutants: &[
            "crates/admission-core/src/queue/line.rs: replace < with == in Line::insert #1",
            "crates/admission-core/src/queue/line.rs: replace < with == in Line::insert #2",
        ],
    },
    Explained {
        why: "It counts steps, of providers that are forgotten; no scene of the test that counts them \
              forgets any.",
        mutants: &[
            "crates/admission-core/src/providers.rs: replace += with -= in Providers::forget",
            "crates/admission-core/src/providers.rs: replace += with *= in Providers::forget",
        ],
    },
    Explained {
        why: "How often a lock is looked at before going to sleep, and how many alarms are set in a row without delay, \
              is a matter of measure.",
        mutants: &[
            "crates/admission-rt/src/shared.rs: replace < with <= in Shared::follow_up_at_length",
            "crates/admission-rt/src/shared.rs: replace << with >> in Shared::lock_in_time",
            "crates/admission-rt/src/shared.rs: replace * with + in Shared::lock_in_time",
        ],
    },
    Explained {
        why: "Who goes on from the start, and not from where the last batch ended, finds those already told without a \
              booking.",
        mutants: &["crates/admission-rt/src/alarms.rs: replace Alarms::told with ()"],
    },
    Explained {
        why: "What is not dropped by hand is dropped with its field, or at the end of the function.",
        mutants: &[
            "crates/admission-rt/src/call.rs: replace <impl Drop for Extras>::drop with ()",
            "crates/admission-rt/src/call.rs: replace let_go with ()",
        ],
    },
    Explained {
        why: "What is due never is as good as not noted.",
        mutants: &[
            "crates/admission-rt/src/sleep.rs: replace < with <= in Sleepers::sit",
            "crates/admission-rt/src/waiting.rs: replace < with <= in LongWaits::next",
        ],
    },
    Explained {
        why: "A round more than is needed changes nothing.",
        mutants: &[
            "crates/admission-rt/src/key.rs: replace < with <= in inverse",
            "crates/admission-rt/src/key.rs: replace *= with += in inverse",
        ],
    },
    Explained {
        why: "Zero is written by the last arm in the same way.",
        mutants: &[
            "crates/admission-rt/src/rejected.rs: delete match arm 0 in <impl fmt::Display for Brief>::fmt #1",
        ],
    },
    Explained {
        why: "A cost that was not stated is 1 or 0, and neither is ever impossible.",
        mutants: &["crates/admission-rt/src/names.rs: replace == with != in Names::impossible #2"],
    },
    Explained {
        why: "While a call waits, what holds it back is named by the limits in force: nothing of the client's is of \
              another kind.",
        mutants: &["crates/admission-rt/src/waiting.rs: replace LimitKind::is_of_scope -> bool with true"],
    },
    Explained {
        why: "It cannot come up: there are never so many providers, and units are checked where they are named.",
        mutants: &[
            "crates/admission-rt/src/names.rs: delete match arm ConfigError::TooManyProviders in Names::wrong",
            "crates/admission-rt/src/names.rs: delete match arm LimitsError::UnknownUnit(unit) in Names::wrong_limits",
        ],
    },
];
