// The whole client library.
#pragma once

#include <pawl/bulk.hpp>
#include <pawl/conductor.hpp>
#include <pawl/connection.hpp>
#include <pawl/errors.hpp>
#include <pawl/flows.hpp>
#include <pawl/messages.hpp>
#include <pawl/placements.hpp>
#include <pawl/row_worker.hpp>
#include <pawl/saga.hpp>
#include <pawl/saga_worker.hpp>
#include <pawl/settings.hpp>
#include <pawl/tasks.hpp>
#include <pawl/trace.hpp>
#include <pawl/worker.hpp>
