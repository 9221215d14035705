// May throw.
#include "input_file.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <iconv.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <pawl/errors.hpp>

namespace pawl {
namespace {

constexpr std::size_t piece = 1 << 18;
const auto no_encoding = reinterpret_cast<iconv_t>(-1);

// How many bytes are passed over where there is no character.
std::size_t unit_of(std::string encoding) {
    for (char& c : encoding) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    encoding.erase(std::remove(encoding.begin(), encoding.end(), '-'), encoding.end());
    if (encoding.rfind("UTF16", 0) == 0 || encoding.rfind("UCS2", 0) == 0) return 2;
    return encoding.rfind("UTF32", 0) == 0 || encoding.rfind("UCS4", 0) == 0 ? 4 : 1;
}

// The encoding that a byte order mark names; empty: there is none, so UTF-8 is assumed.
std::string encoding_of(std::string_view beginning) {
    const std::string_view little = "\xFF\xFE", big = "\xFE\xFF";
    return beginning.substr(0, 2) == little || beginning.substr(0, 2) == big ? "UTF-16" : "";
}

}  // namespace

struct InputFile::Impl {
    gzFile file = nullptr;
    iconv_t converter = no_encoding;
    EVP_MD_CTX* digest = EVP_MD_CTX_new();
    std::vector<char> bytes = std::vector<char>(piece);
    std::string rest;  // the beginning of a character whose end has not come
    std::string converted;
    std::string broken;
    std::uint64_t size = 0;
    std::size_t unit = 1;
    bool begun = false;

    ~Impl() {
        if (file) gzclose_r(file);
        if (converter != no_encoding) iconv_close(converter);
        EVP_MD_CTX_free(digest);
    }

    void convert_from(const std::string& encoding);
    void convert(std::string_view given, bool last = false);
};

InputFile::InputFile(const std::string& name, const std::string& encoding) : impl_(std::make_unique<Impl>()) {
    EVP_DigestInit_ex(impl_->digest, EVP_sha256(), nullptr);
    struct stat known {};
    if (name != "-" && ::stat(name.c_str(), &known) == 0 && S_ISDIR(known.st_mode))
        throw Error("", "cannot read " + name + ": is a directory");
    impl_->file = name == "-" ? gzdopen(::dup(STDIN_FILENO), "rb") : gzopen(name.c_str(), "rb");
    if (!impl_->file) throw Error("", "cannot read " + name + ": " + std::strerror(errno));
    gzbuffer(impl_->file, piece);
    if (name != "-" && S_ISREG(known.st_mode)) impl_->size = static_cast<std::uint64_t>(known.st_size);
    if (!encoding.empty()) impl_->convert_from(encoding);
}

InputFile::~InputFile() = default;

void InputFile::Impl::convert_from(const std::string& encoding) {
    converter = iconv_open("UTF-8", encoding.c_str());
    if (converter == no_encoding) throw Error("", "unknown encoding " + encoding);
    unit = unit_of(encoding);
}

// What is no character becomes a byte that is none in UTF-8 either: the row that has it is a malformed one.
void InputFile::Impl::convert(std::string_view given, bool last) {
    rest.append(given);
    converted.clear();
    char* from = rest.data();
    std::size_t left = rest.size();
    std::array<char, 4096> out{};
    while (left > 0) {
        char* to = out.data();
        std::size_t room = out.size();
        const bool stopped = iconv(converter, &from, &left, &to, &room) == static_cast<std::size_t>(-1);
        converted.append(out.data(), out.size() - room);
        if (!stopped || errno == E2BIG) continue;
        if (errno == EINVAL && !last) break;
        converted += '\xFF';
        const std::size_t passed = std::min(unit, left);
        from += passed;
        left -= passed;
    }
    rest.erase(0, rest.size() - left);
}

std::string_view InputFile::read() {
    for (;;) {
        const int got = gzread(impl_->file, impl_->bytes.data(), static_cast<unsigned>(impl_->bytes.size()));
        int code = Z_OK;
        const char* message = gzerror(impl_->file, &code);
        // Also beside the last bytes of data that end early: zlib 1.3.2 has forgotten it at the next call.
        if (code == Z_ERRNO)
            impl_->broken = std::strerror(errno);
        else if (code != Z_OK && code != Z_STREAM_END)
            impl_->broken = std::string("the gzip data are damaged: ") + message;
        if (got <= 0) {
            if (impl_->rest.empty()) return {};
            impl_->convert({}, true);
            return impl_->converted;
        }
        EVP_DigestUpdate(impl_->digest, impl_->bytes.data(), static_cast<std::size_t>(got));
        const std::string_view bytes(impl_->bytes.data(), static_cast<std::size_t>(got));
        if (!std::exchange(impl_->begun, true) && impl_->converter == no_encoding)
            if (const std::string encoding = encoding_of(bytes); !encoding.empty()) impl_->convert_from(encoding);
        if (impl_->converter == no_encoding) return bytes;
        impl_->convert(bytes);
        if (!impl_->converted.empty()) return impl_->converted;
    }
}

const std::string& InputFile::broken() const noexcept {
    return impl_->broken;
}

std::string InputFile::checksum() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
    unsigned length = 0;
    EVP_DigestFinal_ex(impl_->digest, bytes.data(), &length);
    std::string digits;
    for (unsigned i = 0; i < length; ++i) {
        digits += "0123456789abcdef"[bytes[i] >> 4];
        digits += "0123456789abcdef"[bytes[i] & 15];
    }
    return digits;
}

std::uint64_t InputFile::position() const {
    return static_cast<std::uint64_t>(gzoffset(impl_->file));
}
std::uint64_t InputFile::size() const noexcept {
    return impl_->size;
}

}  // namespace pawl
