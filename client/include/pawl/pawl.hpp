// The whole client library.
#pragma once

#include <pawl/bulk.hpp>
#include <pawl/connection.hpp>
#include <pawl/errors.hpp>
#include <pawl/row_worker.hpp>
#include <pawl/tasks.hpp>
#include <pawl/worker.hpp>
