// May throw.
#include "input_file.hpp"

#include <array>
#include <cerrno>
#include <cstring>
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

    ~Impl() {
        if (file) gzclose_r(file);
        if (converter != no_encoding) iconv_close(converter);
        EVP_MD_CTX_free(digest);
    }

    void convert(std::string_view given);
};

InputFile::InputFile(const std::string& name, const std::string& encoding) : impl_(std::make_unique<Impl>()) {
    EVP_DigestInit_ex(impl_->digest, EVP_sha256(), nullptr);
    struct stat known {};
    if (name != "-" && ::stat(name.c_str(), &known) == 0 && S_ISDIR(known.st_mode)) throw Error("", "cannot read " + name + ": it is a folder");
    impl_->file = name == "-" ? gzdopen(::dup(STDIN_FILENO), "rb") : gzopen(name.c_str(), "rb");
    if (!impl_->file) throw Error("", "cannot read " + name + ": " + std::strerror(errno));
    gzbuffer(impl_->file, piece);
    if (name != "-" && S_ISREG(known.st_mode)) impl_->size = static_cast<std::uint64_t>(known.st_size);
    if (encoding.empty()) return;
    impl_->converter = iconv_open("UTF-8", encoding.c_str());
    if (impl_->converter == no_encoding) throw Error("", "unknown encoding " + encoding);
}

InputFile::~InputFile() = default;

// A byte that is no character stays as it is: the row that has it is a malformed one.
void InputFile::Impl::convert(std::string_view given) {
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
        if (errno == EINVAL) break;
        converted += '\xFF';
        ++from;
        --left;
    }
    rest.erase(0, rest.size() - left);
}

std::string_view InputFile::read() {
    for (;;) {
        const int got = gzread(impl_->file, impl_->bytes.data(), static_cast<unsigned>(impl_->bytes.size()));
        int code = Z_OK;
        const char* message = gzerror(impl_->file, &code);
        if (got <= 0) {
            if (code == Z_ERRNO)
                impl_->broken = std::strerror(errno);
            else if (code != Z_OK && code != Z_STREAM_END)
                impl_->broken = std::string("the gzip data are damaged: ") + message;
            return {};
        }
        EVP_DigestUpdate(impl_->digest, impl_->bytes.data(), static_cast<std::size_t>(got));
        const std::string_view bytes(impl_->bytes.data(), static_cast<std::size_t>(got));
        if (impl_->converter == no_encoding) return bytes;
        impl_->convert(bytes);
        if (!impl_->converted.empty()) return impl_->converted;
    }
}

const std::string& InputFile::broken() const noexcept { return impl_->broken; }

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

std::uint64_t InputFile::position() const { return static_cast<std::uint64_t>(gzoffset(impl_->file)); }
std::uint64_t InputFile::size() const noexcept { return impl_->size; }

}  // namespace pawl
