// The whole client library.
#pragma once

#include <pawl/connection.hpp>
#include <pawl/errors.hpp>
#include <pawl/tasks.hpp>
#include <pawl/worker.hpp>
