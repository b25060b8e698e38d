//! Conformance suite: what every backend must do.
//!
//! A check is a function over [`Open`]: each call returns another handle to the same store, as
//! another process or the next incarnation of this one would get it. A backend joins with one
//! function that creates an empty store, and one line at the end of this file; every check then
//! runs against it, unchanged.

mod alarms;
mod backfills;
mod filtering;
mod fleets;
mod following;
mod items;
mod leadership;
mod leading;
mod library;
mod measurements;
mod model;
mod notices;
mod order;
mod reading;
mod restoring;
mod resuming;
mod retention;
mod running;
mod runs;
mod secrets;
mod submitters;
mod tokens;
mod usage;

use std::sync::Arc;

use baton_store::postgres::{PostgresStore, StoreUrl};
use baton_store::{SqliteStore, Store};
use baton_testing::postgres::database;

/// Opens the same store again.
type Open<'a> = &'a dyn Fn() -> Arc<dyn Store>;

/// An empty memory store.
fn memory(check: fn(Open<'_>)) {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().expect("there is memory"));
    check(&|| Arc::clone(&store));
}

/// An empty file.
fn sqlite(check: fn(Open<'_>)) {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let path = dir.path().join("baton.db");
    check(&|| Arc::new(SqliteStore::open(&path).expect("the store opens")));
}

/// An empty database of a PostgreSQL server.
fn postgres(check: fn(Open<'_>)) {
    let url = StoreUrl::from(&*database());
    check(&|| Arc::new(PostgresStore::connect(&url).expect("the store opens")));
}

/// Makes a test of each check for one backend.
macro_rules! conform {
    ($backend:ident: $($module:ident { $($check:ident,)+ })+) => {
        mod $backend {
            $($(
                #[test]
                fn $check() {
                    super::$backend(super::$module::$check);
                }
            )+)+
        }
    };
}

/// The list of checks, for every backend named.
macro_rules! backends {
    ($($backend:ident),+) => {
        $(conform! { $backend:
            fleets {
                fleets_and_open_jobs_are_restored,
                tokens_of_a_fleet_end_with_it,
                a_removed_fleet_is_gone_with_its_last_job,
                jobs_are_listed_by_page_and_old_ones_are_forgotten,
            }
            leadership {
                a_new_store_has_no_leader_and_nothing_else,
                stores_differ_and_their_terms_are_known,
                a_generation_begins_and_is_settled,
                one_of_many_takers_wins,
                a_take_on_an_old_epoch_changes_nothing,
                renewals_are_counted_and_begin_anew_with_each_term,
                a_deposed_leader_can_write_nothing,
                a_commit_queued_before_a_take_is_in_its_ledger_or_refused,
                a_fence_is_confirmed_under_its_own_epoch_only,
            }
            order {
                a_batch_lands_whole_or_not_at_all,
                after_a_failure_nothing_of_the_term_lands_and_the_next_goes_on,
                what_was_queued_behind_a_failure_fails_as_well,
                outcomes_are_reported_in_order,
                many_submitters_share_one_store,
                what_was_submitted_is_written_before_the_store_closes,
            }
            restoring {
                what_is_restored_is_what_the_facts_add_up_to,
                the_number_of_condemned_incarnations_is_bounded,
                a_hundred_thousand_facts,
                an_array_of_any_size_is_one_fact_and_one_record,
                ids_stay_known_however_they_ended,
                the_changed_limit_of_an_array_stays_until_the_array_is_pruned,
            }
            reading {
                a_timeline_tells_what_happened_when_and_in_whose_name,
                a_long_timeline_comes_in_pages,
                the_instances_of_a_range_are_found_by_their_state,
                a_view_holds_its_instances_and_no_others,
                history_begins_with_the_latest_end,
                a_state_can_be_asked_for,
                any_id_and_any_limit_can_be_asked_for,
                pages_show_everything_once_while_others_write,
                one_of_a_range_leaves_it_with_its_first_fact,
                a_halted_range_is_one_end_and_each_of_it_can_be_retried,
                ranges_that_fall_apart_between_pages_are_shown_once,
                owners_and_names_can_be_asked_for,
                a_cursor_survives_being_printed,
                readers_and_a_writer_at_the_same_time,
            }
            filtering {
                a_view_can_be_filtered_by_tag,
                a_view_can_be_read_backwards,
                a_worker_can_be_asked_for,
                a_time_can_be_asked_for,
                runs_can_be_asked_for_by_time_in_both_orders,
            }
            submitters {
                the_submitter_of_instances_is_in_the_timeline_of_each,
                the_submitter_of_a_run_stays_with_it,
                the_requester_of_facts_about_an_entry_is_in_its_ticks,
                the_bytes_of_requesters_are_counted_and_released,
            }
            retention {
                without_limits_nothing_goes,
                the_oldest_ends_go_by_number,
                the_oldest_ends_go_by_age,
                the_oldest_ends_go_by_bytes,
                the_living_stay_whatever_the_limits_say,
                facts_of_no_instance_go_as_well,
                a_budget_ends_the_work_and_says_so,
                commits_pass_while_pruning,
                what_is_pruned_stays_known,
                of_a_halted_range_no_more_goes_than_must,
                the_fact_about_a_range_goes_with_the_last_one_of_it,
            }
            following {
                facts_of_every_kind_come_once_and_in_order,
                a_page_of_the_history_ends_by_number_and_by_bytes,
                an_owner_sees_what_is_about_its_own_instances,
                a_run_and_its_owner_see_its_facts_and_those_of_its_instances,
                a_follower_learns_up_to_where_there_are_gaps,
                who_follows_while_others_write_misses_nothing,
            }
            usage {
                an_attempt_counts_in_the_hour_it_ended_with_what_was_set_aside,
                a_second_attempt_waits_from_its_backoff_on_and_claims_its_allowance,
                what_is_stopped_while_it_waits_is_counted_for_whom_it_was,
                what_does_not_land_is_not_counted,
                usage_stays_when_the_history_goes,
                usage_comes_in_pages_of_hours_and_owners,
            }
            measurements {
                attempts_of_a_task_are_measured_together,
                items_of_a_workflow_are_measured_under_its_name,
                the_last_measurements_of_a_task_stay,
                tasks_come_in_pages_by_owner_and_filter,
                measurements_stay_when_the_history_goes,
                a_new_leader_finds_the_run_times,
            }
            library {
                a_task_is_its_latest_revision_and_each_before_it_can_be_read,
                a_removed_task_can_be_read_by_revision_and_comes_back_with_the_next,
                tasks_come_in_pages_by_owner_and_name,
                a_pause_survives_revisions_removal_and_leaders,
                ticks_are_listed_latest_first_and_by_task,
                a_second_record_for_a_due_time_is_refused_with_its_batch,
                requests_are_remembered_by_the_next_leader,
                runs_of_a_workflow_keep_their_origin_and_are_counted_by_the_next_leader,
                only_so_many_requests_are_remembered_and_the_oldest_go,
                a_trigger_is_in_the_timeline_and_removed_with_its_instance,
                pruning_removes_old_due_times_and_never_what_a_task_is,
            }
            backfills {
                a_launched_due_time_is_known_and_a_skipped_one_is_not,
                a_backfill_goes_on_where_the_leader_before_has_left_it,
                a_backfill_that_was_cancelled_is_listed_and_not_continued,
                backfills_and_their_launches_come_in_pages,
            }
            runs {
                a_run_stands_where_its_facts_have_left_it,
                a_plan_is_put_together_from_its_parts,
                runs_come_in_pages_by_state_owner_and_name,
                a_fact_that_does_not_fit_a_run_is_refused_with_its_batch,
                the_history_tells_of_runs_in_order_and_does_not_repeat_their_plans,
                what_is_counted_of_instances_does_not_depend_on_runs,
            }
            items {
                an_item_ends_as_its_instance_does,
                a_halted_range_ends_the_items_that_waited_in_it,
                items_that_come_and_go_in_one_batch_end,
                items_come_in_pages_by_task_and_by_end,
                failures_that_are_alike_are_counted_together,
                what_was_stopped_of_a_failed_run_is_counted_with_its_failures,
                a_page_of_items_ends_by_bytes,
                a_manual_retry_does_not_change_the_run,
            }
            resuming {
                a_resumed_run_keeps_done_items_except_those_to_rerun,
                another_plan_keeps_what_is_carried_and_nothing_else,
                an_end_of_an_older_generation_is_not_the_runs,
                a_leader_that_takes_over_finds_runs_where_they_were,
                runs_that_ended_long_ago_are_removed_with_all_their_rows,
                the_id_of_a_run_is_never_reused,
                a_run_with_many_items_is_gone_before_all_of_them_are,
            }
            alarms {
                alarms_are_rows_until_they_are_cleared,
                a_restored_ledger_has_its_alarms,
            }
            notices {
                notices_and_position_are_stored_together,
                each_follower_has_a_position_of_its_own,
                a_deposed_leader_records_no_notice,
                the_first_delivery_of_each_series_is_due,
                notices_come_in_pages_and_by_filter,
            }
            secrets {
                a_secret_is_set_replaced_used_and_removed,
                only_the_version_that_was_read_is_sealed_again,
            }
            tokens {
                a_token_is_stored_as_created,
                a_revoked_token_stays_revoked_and_others_do_not_change,
                a_secret_belongs_to_one_token,
                tokens_are_made_beside_a_leader_and_do_not_disturb_it,
            }
        })+
    };
}

backends!(memory, sqlite, postgres);
