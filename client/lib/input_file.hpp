// May throw. A file or standard input, plain or gzip, in any encoding that iconv knows, as UTF-8 in pieces; its checksum on the way.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace pawl {

class InputFile {
public:
    // - is standard input; an empty encoding is UTF-8, left as it is, or UTF-16 where the file begins with its byte order mark. Throws Error: it cannot be read, there is no such encoding.
    InputFile(const std::string& name, const std::string& encoding);
    ~InputFile();

    // The next piece; empty at the end, or where it can be read no further.
    std::string_view read();

    // Why it could not be read to its end; empty: it could.
    const std::string& broken() const noexcept;

    // SHA-256 of what was read, gzip undone, in hexadecimal digits; the same file has the same, compressed or not.
    std::string checksum();

    std::uint64_t position() const;  // in the file as it lies on the disk
    std::uint64_t size() const noexcept;  // 0: not known

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace pawl
