#ifndef COXSWAIN_KERNELS_CPU_AVX512_SUPER_WORDS_H_
#define COXSWAIN_KERNELS_CPU_AVX512_SUPER_WORDS_H_
// The parameters of a super-group (formats/super.h) as AVX-512 reads them, of panels of 64 outputs. Included inside an
// anonymous namespace of coxswain::kernels, after bytes.h and formats/super.h.

// Words between the parameters of a super-group, 16 bits each.
inline constexpr size_t kSuperStep = size_t{64} * 2;

// Whole numbers of sub-group `sub` of 16 outputs; `words` are the parameters of these.
template <typename Codes>
inline __m512i subs_of(const uint16_t* words, size_t sub) {
  constexpr size_t kOfWord = Codes::kHasMinima ? 2 : 4;
  const __m512i word = Set::load_words(words + (1 + sub / kOfWord) * kSuperStep);
  const auto place = static_cast<unsigned>(sub % kOfWord) * (32 / kOfWord);
  if constexpr (Codes::kHasMinima)
    return _mm512_and_si512(_mm512_srl_epi32(word, _mm_cvtsi32_si128(static_cast<int>(place))),
                            _mm512_set1_epi32(0xFF));
  return _mm512_srai_epi32(_mm512_sll_epi32(word, _mm_cvtsi32_si128(static_cast<int>(24 - place))),
                           24);
}

// Sub-minima of 16 outputs, of sub-groups 2 * pair and 2 * pair + 1 in the words of a lane.
inline __m512i sub_minima_of(const uint16_t* words, size_t pair) {
  return _mm512_srli_epi16(Set::load_words(words + (1 + pair) * kSuperStep), 8);
}

#endif  // COXSWAIN_KERNELS_CPU_AVX512_SUPER_WORDS_H_
