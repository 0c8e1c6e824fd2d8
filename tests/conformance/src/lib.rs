//! The conformance suite: one body per behaviour, mounted once per runtime.
//!
//! Owns: the bodies, named by the rules they show, and the one list that mounts them. Lacks, on
//! purpose: any runtime; `tests/` has a file per mount. A mount cannot forget a body: it says
//! [`mount!`] and gets the whole list. Some bodies need more than every mount can give, and the list
//! says so:
//!
//! - *everywhere*: by causes, not by luck; where real time passes, no start is early, and that is all
//!   that is said about time;
//! - *exact*: time passes only while nothing can run;
//! - *virtual*: timers can be made to lie, and can be counted.
#![forbid(unsafe_code)]

pub mod abort;
pub mod checklist;
pub mod clocks;
pub mod close;
pub mod crowd;
pub mod errors;
pub mod explain;
pub mod handoff;
pub mod hostile;
pub mod interval_limiter;
pub mod limits;
pub mod living;
pub mod mount;
pub mod order;
pub mod paced;
pub mod puppet;
pub mod queries;
pub mod query_ends;
pub mod query_faults;
pub mod rate_limiter;
pub mod retries;
pub mod signal;
pub mod stream_ends;
pub mod streams;
pub mod transcript;
pub mod waiting;

/// Mounts the suite on a runtime: `mount!(everywhere Real)`, or `exact`, or `virtual_time`.
#[macro_export]
macro_rules! mount {
    (everywhere $mount:ty) => {
        $crate::mount! { @tests $mount;
            abort {
                an_abort_takes_the_ticket_out_with_its_reason
                an_aborted_signal_refuses_before_submitting
                a_signal_fires_once_and_not_by_being_dropped
                one_signal_may_abort_many
                a_signal_is_looked_at_once_more_before_the_start
                an_abort_frees_nothing_of_a_call_that_runs
                dropping_a_call_that_runs_ends_it
                a_future_can_be_dropped_in_every_state
                a_call_can_be_cancelled_at_every_await_point
                a_signal_can_be_made_of_a_future
                leaving_costs_nothing_though_the_ticket_was_due
            }
            checklist {
                a_granted_ticket_that_is_dropped_passes_its_turn_on
                an_earlier_deadline_may_come_later
                a_tie_in_time_keeps_the_order_of_submission
                a_tie_at_a_cooldown_keeps_the_order_of_submission
                a_stall_is_not_caught_up
                time_never_runs_back
                threads_mint_no_credit
                slot_and_key_belong_to_the_operation_until_it_settles
                a_call_that_never_settles_concerns_its_own_only
            }
            clocks {
                the_default_clock_is_the_runtimes_own
                the_coordinators_clock_decides
                the_wall_clock_decides_nothing
                a_coordinator_can_be_used_from_another_runtime
            }
            close {
                close_ends_every_wait_at_once
                a_closed_coordinator_admits_nobody
                a_grant_that_is_out_may_still_start
                a_grant_taken_back_after_the_close_ends_as_closed
                whoever_waits_for_idle_waits_for_no_caller_that_does_not_run
                one_can_wait_for_idle_and_for_closed
                a_close_ends_waits_of_any_length
                a_close_comes_before_the_grants_of_its_call
            }
            crowd {
                sixteen_hundred_callers_are_polled_twice_each
                a_crowd_in_a_narrow_place
                a_crowd_that_comes_and_goes
            }
            errors {
                zeros_are_configuration_errors
                unknown_names_are_typed_errors
                huge_durations_mean_never
                huge_settings_are_settings_like_any_other
                the_largest_limits_are_limits
                a_rate_limiter_clamps_what_is_out_of_range
                of_several_reasons_the_first_is_told
                keys_are_compared_exactly
                the_operations_errors_pass_through
            }
            explain {
                a_call_that_waits_says_what_holds_it_back
                whoever_waits_is_listed_in_order
                a_refusal_says_who_has_the_key
                a_call_that_waits_long_is_reported_once
            }
            handoff {
                a_newcomer_that_may_start_starts_in_one_step
                a_grant_is_started_by_its_caller
                a_grant_that_has_not_started_holds_its_scope
                an_abandoned_grant_keeps_its_budget_spent
                a_caller_that_does_not_run_stalls_the_others_briefly
                the_hand_off_time_is_two_hundred_milliseconds
                a_task_that_awaits_another_acquisition_goes_on
                a_thousand_futures_that_nobody_polls_stall_the_queue_briefly
                a_grant_that_is_taken_back_gives_everything_back
                a_late_poll_starts_a_grant_that_is_still_there
                a_grant_taken_back_past_its_deadline_expires
                a_cooldown_takes_back_what_has_not_started
                each_take_back_halves_the_time_and_a_start_restores_it
                a_grant_gets_the_shorter_of_its_scopes_times
                whoever_was_polled_again_gets_the_full_time
                whoever_is_passed_over_starts_when_it_is_polled
                a_cooldown_halves_nothing
                a_deadline_goes_on_when_a_cooldown_takes_the_grant_back
            }
            hostile {
                a_waker_may_call_back_when_it_is_replaced_and_granted
                a_waker_may_abort_from_inside_a_wake
                a_waker_may_call_back_when_its_ticket_expires
                a_waker_may_call_back_when_the_coordinator_closes
                a_waker_may_call_back_when_its_future_is_dropped
                what_an_operation_captures_may_call_back_when_it_is_dropped
                whoever_waits_for_a_signal_may_call_back
            }
            interval_limiter {
                many_tasks_share_one_interval
                at_most_so_many_wait_for_an_interval
                admission_ends_when_the_operation_was_called
                nothing_of_the_wait_is_left_when_the_operation_is_called
                a_signal_is_looked_at_before_the_operation_is_called
                acquire_is_the_start
                a_start_may_be_had_at_once_or_not_at_all
                a_retry_takes_a_place_of_its_own
                a_panic_in_a_paced_operation_leaves_nothing
            }
            living {
                limits_change_both_ways_while_calls_wait_and_run
                a_waiter_that_can_no_longer_fit_is_refused_at_once
                a_cost_is_corrected_while_the_permit_is_held
                a_provider_can_be_removed_and_come_back
                a_template_makes_providers_on_demand
                the_queue_can_be_shortened_without_refusing_who_waits
                a_snapshot_tells_everything
            }
            limits {
                concurrency_is_bounded_for_client_provider_and_key
                concurrency_has_no_default
                starts_are_an_interval_apart
                a_clients_interval_paces_all_providers_together
                idle_time_earns_no_credit
                no_window_sees_twice_the_limit
                a_window_is_half_open
                intervals_and_cooldowns_end_at_their_very_instant
                several_pacers_must_all_agree
                what_is_refused_spends_nothing
                a_cooldown_never_shortens_and_touches_no_running_call
                a_cost_above_the_limit_is_refused_at_once
                a_call_that_costs_nothing_is_not_asked_about
                a_log_counts_from_the_start_unless_told_otherwise
                a_log_until_settled_counts_from_the_end
                a_margin_is_added
                reset_forgets_the_logs_of_one_scope_only
                reset_exempts_those_who_wait_from_the_logs_alone
                a_window_may_be_longer_than_the_clock_has_run
                an_abandoned_grant_counts_from_the_grant
                a_call_that_never_settles_holds_its_budget
                client_and_provider_must_both_have_room
            }
            order {
                the_order_of_submission_is_the_order_of_first_polls
                a_future_that_is_never_polled_holds_nothing
                enqueue_takes_its_place_at_once
                a_queue_is_served_in_the_order_of_submission
                a_provider_that_waits_holds_back_no_other
                a_busy_key_holds_back_only_that_key
                a_key_that_comes_free_goes_to_the_oldest_that_is_eligible
                a_heavy_ticket_is_not_starved_by_light_ones
                a_heavy_ticket_that_something_else_holds_back_stops_nobody
                a_heavy_ticket_of_one_provider_does_not_stop_another
                a_newcomer_does_not_overtake_an_overdue_waiter
                a_newcomer_that_may_start_takes_no_place
                a_retry_stands_at_the_tail
                a_greedy_resubmitter_never_beats_the_one_who_waits
                the_start_of_an_acquire_is_the_poll_that_returns_the_permit
                the_overdue_expire_before_a_newcomer_is_judged
                a_heavy_ticket_of_a_cooling_provider_does_not_stop_another
            }
            paced {
                a_paced_stream_is_read_no_faster_than_allowed
                a_paced_read_is_a_call
                a_refusal_ends_a_paced_stream_and_loses_nothing
            }
            queries {
                an_unknown_provider_is_an_error_when_the_query_is_created
                the_attempt_timeout_starts_when_the_source_is_called
                a_query_without_timeouts_waits_and_runs_for_as_long_as_it_takes
                a_refusal_ends_the_cycle_and_is_no_attempt
                a_close_ends_what_is_queued_and_lets_run_what_runs
                a_failed_attempt_is_retried_at_the_tail
                when_no_retry_is_left_the_last_error_is_told
                a_retry_that_is_refused_tells_of_the_attempt_before_it
                a_cooldown_that_an_error_asks_for_comes_before_the_slot_is_free
                a_result_is_stamped_with_the_wall_clock
                a_refresh_joins_the_cycle_that_goes_on
                a_subscriber_sees_the_snapshots
                a_slow_subscriber_skips_and_holds_up_nobody
                many_subscribers_share_one_snapshot
                a_query_has_costs
            }
            query_ends {
                each_attempt_has_a_signal_of_its_own
                the_last_unsubscribe_takes_a_queued_cycle_out
                a_refresh_that_is_dropped_leaves_the_cycle
                an_aborted_source_holds_its_slots_until_it_has_finished
                a_source_that_never_finishes_holds_its_key
                a_call_that_may_be_dropped_frees_its_slots_at_once
                pause_and_dispose_end_a_cycle_in_every_state
            }
            query_faults {
                a_panicking_source_loses_nothing
                a_refresh_can_be_dropped_at_every_await_point
                a_refresh_outside_any_runtime_is_refused
            }
            rate_limiter {
                a_rate_limiter_waits_by_default
                a_rejecting_limiter_answers_at_once
                of_two_hundred_at_once_sixty_start
                the_estimate_counts_those_ahead
                a_wait_of_exactly_the_longest_is_waited_for
                a_longest_wait_of_zero_refuses_all_waiting
                a_full_queue_is_an_overflow
                available_is_what_is_free_right_now
                reset_admits_everybody_who_waits
                a_permit_is_spent_at_admission
                who_is_not_admitted_spends_nothing
                a_rate_limiter_closes
                whoever_waits_too_long_gets_a_fresh_estimate
            }
            retries {
                retries_stand_behind_those_who_wait
                waiting_to_retry_holds_nothing
                delays_are_seen_in_the_starts
                a_predicate_is_never_asked_about_a_refusal
                a_policy_may_have_refusals_retried
                an_error_may_become_a_cooldown
                a_refused_retry_carries_the_last_error
                attempts_are_numbered_and_counted
                an_abort_ends_the_wait_between_attempts
                retries_share_one_interval
                a_retried_call_may_be_dropped_while_it_waits
            }
            stream_ends {
                a_stream_can_be_dropped_in_every_state
                a_stream_can_be_dropped_after_any_poll
                a_try_stream_stops_at_the_first_error
                a_failed_item_is_an_error_in_its_place
                a_refused_item_is_not_retried
                a_panic_in_one_item_loses_no_other
                a_signal_ends_a_stream
                a_signal_ends_a_stream_that_waits_for_its_source
            }
            streams {
                outputs_come_in_the_order_of_the_source
                outputs_may_come_as_they_are_completed
                a_stream_runs_no_further_ahead_than_its_capacity
                a_spawned_stream_that_is_not_polled_frees_its_slots
                items_have_calls_of_their_own
                items_queue_in_the_order_of_the_source
            }
            waiting {
                the_queue_is_finite
                a_thousand_and_twenty_four_may_wait
                a_queue_of_zero_admits_at_once_or_not_at_all
                try_acquire_starts_at_once_or_is_exhausted
                an_admission_timeout_ends_the_wait
                at_the_deadline_a_grant_wins_and_past_it_a_refusal
                a_timeout_of_zero_starts_what_can_start
                the_admission_timeout_has_no_default
                any_call_lets_time_pass
                calls_outlive_the_handles
                a_panic_in_the_operation_frees_everything
                a_panic_after_a_wait_passes_the_turn_on
                the_operations_future_is_dropped_before_its_permit
                no_waker_is_kept
                the_last_waker_is_the_one_that_is_woken
            }
        }
    };
    (exact $mount:ty) => {
        $crate::mount!(everywhere $mount);
        mod exact {
            use super::*;
            $crate::mount! { @tests $mount;
                checklist {
                    the_head_of_the_queue_may_go_away
                    the_earliest_deadline_may_go_away
                }
                clocks {
                    an_hours_wait_takes_no_real_time
                    a_runtime_that_goes_away_strands_nobody
                }
                interval_limiter {
                    a_caller_of_the_interval_that_does_not_run_stalls_briefly
                }
                limits {
                    a_cooldown_can_be_lengthened_while_callers_wait
                }
                query_faults {
                    a_runtime_that_goes_away_ends_its_cycle
                }
                rate_limiter {
                    reset_admits_the_one_that_is_passed_over_when_it_is_polled
                }
                streams {
                    a_driven_stream_that_is_not_polled_stalls_others_briefly
                    two_streams_share_one_interval_with_their_retries
                }
            }
        }
    };
    (virtual_time $mount:ty) => {
        $crate::mount!(exact $mount);
        mod virtual_time {
            use super::*;
            $crate::mount! { @tests $mount;
            clocks {
                no_timer_is_armed_while_nothing_is_queued
                a_timer_that_fires_early_changes_nothing
                a_timer_that_always_fires_early_gets_there
                a_timer_that_fires_late_causes_no_burst
                a_timer_that_never_fires_is_made_up_for_by_any_call
            }
            query_faults {
                no_timer_is_left_of_a_cycle
            }
            }
        }
    };
    // One test per body.
    (@tests $mount:ty; $($module:ident { $($body:ident)* })*) => {
        $(mod $module {
            use super::*;
            $(#[test]
            fn $body() {
                $crate::mount::run::<$mount>(|| Box::pin($crate::$module::$body::<$mount>()));
            })*
        })*
    };
}

#[cfg(test)]
mod tests {
    /// Every body is in the list, and stands in the file that the list says.
    #[test]
    fn every_body_is_mounted() {
        let list = include_str!("lib.rs");
        let list = &list[list.find("macro_rules!").expect("the list")
            ..list.find("// One test per body").expect("its end")];
        let files = [
            include_str!("abort.rs"),
            include_str!("checklist.rs"),
            include_str!("clocks.rs"),
            include_str!("close.rs"),
            include_str!("crowd.rs"),
            include_str!("errors.rs"),
            include_str!("explain.rs"),
            include_str!("handoff.rs"),
            include_str!("hostile.rs"),
            include_str!("interval_limiter.rs"),
            include_str!("limits.rs"),
            include_str!("living.rs"),
            include_str!("order.rs"),
            include_str!("paced.rs"),
            include_str!("queries.rs"),
            include_str!("query_ends.rs"),
            include_str!("query_faults.rs"),
            include_str!("rate_limiter.rs"),
            include_str!("retries.rs"),
            include_str!("stream_ends.rs"),
            include_str!("streams.rs"),
            include_str!("waiting.rs"),
        ];
        let mut bodies = 0;
        for line in files.iter().flat_map(|file| file.lines()) {
            let Some(name) = line.strip_prefix("pub async fn ") else { continue };
            let name = name.split('<').next().expect("a name");
            assert!(list.split_whitespace().any(|word| word == name), "{name} is mounted nowhere");
            bodies += 1;
        }
        assert!(bodies > 100, "{bodies} bodies");
    }
}
