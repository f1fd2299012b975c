# shellcheck shell=bash
# DevStack plugin of nova_sched; sourced by stack.sh, unstack.sh and clean.sh with the phase as arguments.
#
# It installs the scheduler with a database and a virtual host of its own and starts simulated compute hosts beside it. The Nova of that DevStack
# is left alone.
#
# shellcheck disable=SC2154 # TOP_DIR, DEST, STACK_USER and the functions come from DevStack

function install_nova_sched {
    setup_develop "$NOVA_SCHED_DIR"
}

function configure_nova_sched {
    sudo install -d -o "$STACK_USER" "$NOVA_SCHED_CONF_DIR"
    oslo-config-generator --namespace nova_sched --namespace oslo.log --namespace oslo.messaging --output-file "$NOVA_SCHED_CONF"
    chmod 640 "$NOVA_SCHED_CONF"

    iniset "$NOVA_SCHED_CONF" DEFAULT debug "$ENABLE_DEBUG_LOG_LEVEL"
    iniset "$NOVA_SCHED_CONF" DEFAULT scheduler_driver "$NOVA_SCHED_DRIVER"
    iniset "$NOVA_SCHED_CONF" DEFAULT workers "$NOVA_SCHED_WORKERS"
    iniset "$NOVA_SCHED_CONF" database connection "$(database_connection_url "$NOVA_SCHED_DATABASE")"
    rpc_backend_add_vhost "$NOVA_SCHED_VHOST"
    iniset_rpc_backend nova-sched "$NOVA_SCHED_CONF" DEFAULT "$NOVA_SCHED_VHOST"
    setup_logging "$NOVA_SCHED_CONF"
}

# One file per simulated host, read after the common one.
function configure_nova_sched_agents {
    local number file
    for number in $(seq "$NOVA_SCHED_AGENTS"); do
        file=$(nova_sched_agent_conf "$number")
        rm -f "$file"
        iniset "$file" DEFAULT host "$(hostname -s)-agent$number"
        iniset "$file" agent vcpus "$NOVA_SCHED_AGENT_VCPUS"
        iniset "$file" agent memory_mb "$NOVA_SCHED_AGENT_MEMORY_MB"
        iniset "$file" agent local_gb "$NOVA_SCHED_AGENT_LOCAL_GB"
    done
}

function nova_sched_agent_conf {
    echo "$NOVA_SCHED_CONF_DIR/agent$1.conf"
}

function init_nova_sched {
    recreate_database "$NOVA_SCHED_DATABASE"
    time_start "dbsync"
    nova-sched-manage --config-file "$NOVA_SCHED_CONF" db sync
    time_stop "dbsync"
}

function start_nova_sched {
    local bin number
    bin=$(get_python_exec_prefix)
    run_process nova-sched-scheduler "$bin/nova-sched-scheduler --config-file $NOVA_SCHED_CONF"
    for number in $(seq "$NOVA_SCHED_AGENTS"); do
        run_process "nova-sched-compute-$number" \
            "$bin/nova-sched-compute --config-file $NOVA_SCHED_CONF --config-file $(nova_sched_agent_conf "$number")"
    done
}

function stop_nova_sched {
    local number
    stop_process nova-sched-scheduler
    for number in $(seq "$NOVA_SCHED_AGENTS"); do
        stop_process "nova-sched-compute-$number"
    done
}

function cleanup_nova_sched {
    sudo rm -rf "$NOVA_SCHED_CONF_DIR"
    if is_service_enabled rabbit; then
        sudo rabbitmqctl delete_vhost "$NOVA_SCHED_VHOST" || true
    fi
}

if is_service_enabled nova-sched-scheduler; then
    case "$1 ${2:-}" in
        "stack install")
            echo_summary "Installing nova_sched"
            install_nova_sched
            ;;
        "stack post-config")
            echo_summary "Configuring nova_sched"
            configure_nova_sched
            configure_nova_sched_agents
            init_nova_sched
            ;;
        "stack extra")
            echo_summary "Starting nova_sched"
            start_nova_sched
            ;;
        "stack test-config")
            nova-sched-manage --config-file "$NOVA_SCHED_CONF" config check
            ;;
        "unstack ")
            stop_nova_sched
            ;;
        "clean ")
            cleanup_nova_sched
            ;;
    esac
fi
