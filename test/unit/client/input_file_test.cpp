// Files that are read for a bulk operation: plain, gzip, and gzip data that end early, whatever zlib makes of them.
#include "input_file.hpp"

#include <cstdio>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

namespace pawl {
namespace {

// A file that is gone when the test is.
struct Scratch {
    std::string name = testing::TempDir() + "pawl_input." + std::to_string(::getpid());
    ~Scratch() { std::remove(name.c_str()); }
    void write(const std::string& bytes) const { std::ofstream(name, std::ios::binary) << bytes; }
};

std::string many_rows() {
    std::ostringstream rows;
    for (int i = 0; i < 100'000; ++i) rows << "r" << i << ",1\n";
    return rows.str();
}

std::string compressed(const Scratch& scratch, const std::string& text) {
    const gzFile file = gzopen(scratch.name.c_str(), "wb");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
    std::ostringstream bytes;
    bytes << std::ifstream(scratch.name, std::ios::binary).rdbuf();
    return bytes.str();
}

struct Read {
    std::string text;
    std::string broken;
};

Read all_of(const Scratch& scratch) {
    InputFile file(scratch.name, "");
    Read read;
    for (std::string_view bytes; !(bytes = file.read()).empty();) read.text += bytes;
    read.broken = file.broken();
    return read;
}

TEST(InputFile, ReadsPlainAndCompressedFilesToTheirEnd) {
    const Scratch scratch;
    const std::string text = many_rows();
    for (const std::string& bytes : {text, compressed(scratch, text)}) {
        scratch.write(bytes);
        const Read read = all_of(scratch);
        EXPECT_TRUE(read.text == text);
        EXPECT_EQ(read.broken, "");
    }
}

TEST(InputFile, SaysThatCompressedDataEndEarly) {
    const Scratch scratch;
    const std::string text = many_rows();
    const std::string bytes = compressed(scratch, text);
    for (const std::size_t length : {std::size_t{5}, bytes.size() / 3, bytes.size() / 2, bytes.size() - 1}) {
        scratch.write(bytes.substr(0, length));
        const Read read = all_of(scratch);
        EXPECT_EQ(text.compare(0, read.text.size(), read.text), 0) << length;
        EXPECT_NE(read.broken, "") << length << " of " << bytes.size() << " bytes";
    }
}

TEST(InputFile, SaysThatCompressedDataAreDamaged) {
    const Scratch scratch;
    std::string bytes = compressed(scratch, many_rows());
    for (std::size_t at = bytes.size() / 2; at < bytes.size() / 2 + 100; ++at) bytes[at] = static_cast<char>(at * 7);
    scratch.write(bytes);
    EXPECT_NE(all_of(scratch).broken, "");
}

}  // namespace
}  // namespace pawl
