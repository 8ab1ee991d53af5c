// What the variables of each launcher are taken for.
#include "strata/comm/launcher.h"

#include <map>

#include "strata/base/error.h"
#include "support/catch.h"

namespace strata {

namespace {

Launch launch_with(const std::map<std::string, std::string>& variables) {
  return detect_launch([&](const char* name) -> std::optional<std::string> {
    const auto it = variables.find(name);
    return it == variables.end() ? std::nullopt : std::optional<std::string>(it->second);
  });
}

}  // namespace

TEST_CASE("a process without a launcher is alone") {
  CHECK_FALSE(launch_with({}).mpi);
  CHECK(launch_with({}).ranks == 1);
}

TEST_CASE("mpirun of Open MPI, MPICH and Intel MPI is recognised") {
  CHECK(launch_with({{"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_RANK", "0"}}).mpi);
  CHECK(launch_with({{"OMPI_COMM_WORLD_SIZE", "4"}}).ranks == 4);
  CHECK(launch_with({{"PMI_SIZE", "3"}, {"PMI_RANK", "1"}}).ranks == 3);
  CHECK_FALSE(launch_with({{"OMPI_COMM_WORLD_SIZE", "1"}, {"PMIX_RANK", "0"}}).mpi);
}

TEST_CASE("mpirun inside a SLURM allocation counts its own ranks") {
  const Launch launch =
      launch_with({{"OMPI_COMM_WORLD_SIZE", "2"}, {"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}});
  CHECK(launch.mpi);
  CHECK(launch.ranks == 2);
}

TEST_CASE("srun with PMIx or PMI-2 is recognised") {
  const Launch pmix =
      launch_with({{"PMIX_RANK", "5"}, {"SLURM_PROCID", "5"}, {"SLURM_STEP_NUM_TASKS", "6"}});
  CHECK(pmix.mpi);
  CHECK(pmix.ranks == 6);
  CHECK(launch_with({{"PMI_SIZE", "6"}, {"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "6"}}).mpi);
  CHECK_FALSE(
      launch_with({{"PMIX_RANK", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}).mpi);
}

TEST_CASE("PMIx without a number of ranks leaves the answer to MPI") {
  const Launch launch = launch_with({{"PMIX_RANK", "0"}});
  CHECK(launch.mpi);
  CHECK_FALSE(launch.ranks.has_value());
}

TEST_CASE("several SLURM tasks without MPI are refused with the remedy") {
  REQUIRE_THROWS_AS(launch_with({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "8"}}), ConfigError);
  REQUIRE_THROWS_WITH(launch_with({{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "8"}}),
                      ContainsSubstring("8 tasks") && ContainsSubstring("srun --mpi=pmix"));
}

TEST_CASE("one task of a larger SLURM allocation is alone") {
  CHECK_FALSE(
      launch_with({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_NTASKS", "8"}})
          .mpi);
  // An interactive shell of salloc is no task.
  CHECK_FALSE(launch_with({{"SLURM_NTASKS", "8"}}).mpi);
}

TEST_CASE("a launcher may say how many ranks it has started on a host") {
  const auto with = [](const char* set, const char* value) {
    return launched_on_host([&](const char* name) -> std::optional<std::string> {
      return std::string(name) == set ? std::optional<std::string>(value) : std::nullopt;
    });
  };
  CHECK(with("OMPI_COMM_WORLD_LOCAL_SIZE", "4") == 4);
  CHECK(with("MPI_LOCALNRANKS", "2") == 2);
  CHECK_FALSE(with("SLURM_NTASKS", "8").has_value());
  REQUIRE_THROWS_AS(with("MPI_LOCALNRANKS", "two"), ConfigError);
}

TEST_CASE("a process knows its number if a launcher started several") {
  const auto with = [](const std::map<std::string, std::string>& variables) {
    return launched_rank([&](const char* name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    });
  };
  CHECK(with({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}) == "1");
  CHECK(with({{"PMI_RANK", "0"}, {"PMI_SIZE", "3"}}) == "0");
  CHECK(with({{"SLURM_PROCID", "5"}, {"SLURM_STEP_NUM_TASKS", "6"}}) == "5");
  CHECK_FALSE(with({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}).has_value());
  CHECK_FALSE(with({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}).has_value());  // a batch script
  CHECK_FALSE(with({}).has_value());
}

TEST_CASE("a launcher's nonsense is named") {
  REQUIRE_THROWS_WITH(launch_with({{"PMI_SIZE", "four"}}), ContainsSubstring("PMI_SIZE"));
}

}  // namespace strata
