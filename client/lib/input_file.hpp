// May throw. Reads a file or standard input, plain or gzip, in any encoding that iconv knows, as pieces of UTF-8, and
// computes its checksum.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace pawl {

class InputFile {
public:
    // name "-": standard input. encoding "": UTF-8, which is not checked, or UTF-16 if the file begins with its byte
    // order mark. Throws Error if the file cannot be read, or the encoding is unknown.
    InputFile(const std::string& name, const std::string& encoding);
    ~InputFile();

    // The next piece, valid until the next call; empty at the end, and if the file cannot be read further.
    std::string_view read();

    // Why the file could not be read to its end; empty: it could.
    const std::string& broken() const noexcept;

    // SHA-256 of the uncompressed bytes read so far, in hexadecimal digits. To be called once.
    std::string checksum();

    std::uint64_t position() const;       // bytes read, compressed as they are
    std::uint64_t size() const noexcept;  // bytes; 0: unknown

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace pawl
