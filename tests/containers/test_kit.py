"""The container provider passes the kit of providers on a real engine."""

from __future__ import annotations

import pytest

from datum_compute.providers import conformance
from datum_compute.providers.conformance import (
    Check,
    data,
    failures,
    lifecycle,
    logs,
    networks,
    processes,
    removal,
    sleep,
    suspension,
)
from tests.support.providers.container import container_cell

pytestmark = [pytest.mark.containers, pytest.mark.realtime]

SMOKE = (
    lifecycle.the_last_gate_starts_it,
    lifecycle.nothing_is_written_while_nothing_changes,
    lifecycle.a_restart_of_the_provider_disturbs_nothing,
    lifecycle.a_successor_never_adopts_what_its_predecessor_left,
    lifecycle.an_instance_deleted_while_the_engine_is_away_is_removed_later,
    removal.an_instance_deleted_while_the_provider_is_down_is_released,
    removal.several_containers_are_removed_together,
    suspension.a_stopped_instance_runs_nothing_until_it_is_started,
    suspension.a_stopped_instance_stays_so_over_a_restart_of_the_provider,
    suspension.an_instance_started_while_it_is_being_stopped_runs,
    suspension.a_stopped_instance_is_deleted_as_any_other,
    suspension.a_stopped_instance_keeps_its_address,
    suspension.what_an_instance_has_written_is_there_after_a_stop,
    suspension.a_stopped_instance_stays_so_while_the_engine_is_away,
    sleep.an_idle_instance_sleeps_and_is_available,
    sleep.a_sleeping_instance_is_stopped_and_started,
    sleep.a_sleeping_instance_is_deleted_as_any_other,
    sleep.a_connection_wakes_a_sleeping_instance,
    sleep.an_instance_sleeps_on_over_a_restart_of_everything,
    sleep.an_instance_whose_containers_are_removed_while_it_sleeps_wakes,
    sleep.a_waking_that_fails_is_reported_within_its_deadline,
    failures.an_image_that_cannot_be_had_is_reported,
    failures.a_template_that_cannot_run_is_reported,
    failures.an_instance_that_crashes_is_reported,
    failures.an_instance_too_large_for_the_site_is_reported,
    processes.a_killed_process_is_started_again,
    processes.a_process_out_of_memory_is_reported_as_such,
    data.variables_come_from_keys_of_config_maps_and_secrets,
    data.files_have_the_mode_of_their_volume,
    data.items_choose_keys_paths_and_modes,
    data.a_sub_path_is_mounted_alone,
    data.changed_data_is_there_after_a_restart,
    data.a_missing_key_is_named_until_it_is_there,
    data.a_private_image_is_pulled_with_the_secret_that_matches,
    data.a_private_image_without_the_right_password_is_reported,
    networks.declared_ports_answer_at_the_external_address,
    logs.a_long_line_is_read_to_its_end,
    logs.followed_lines_begin_with_the_first_and_end_with_the_instance,
)
"""What every change is tested with; the campaign runs all."""

CHECKS = [
    pytest.param(
        check,
        marks=[] if check in SMOKE else [pytest.mark.campaign],
        id=conformance.title(check),
    )
    for check in conformance.CHECKS
]


@pytest.mark.parametrize("check", CHECKS)
async def test_the_container_provider_passes_the_kit(check: Check, engine: str) -> None:
    async with container_cell(engine) as cell:
        await check(cell)
