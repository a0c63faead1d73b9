/*
 * memcpy, memmove, memset, memcmp and bcmp for x86-64, with vectors of 16 octets, which every such processor has.
 *
 * Up to 128 octets all is loaded before anything is stored, from both ends inwards, so that places may overlap and no
 * length takes a loop. Longer ones are copied 64 octets at a time, forwards or backwards. Very long ones are filled by
 * `rep stosb`. Nothing outside the given places is read or written.
 *
 * The linker takes these before those of the C library that come behind them. PREFIX gives them other names, for tests.
 */
#define JOIN(a, b) a##b
#define PREFIXED(a, b) JOIN(a, b)
#ifdef PREFIX
#define NAME(name) PREFIXED(PREFIX, name)
#else
#define NAME(name) name
#endif
#define FUNCTION(name) .globl NAME(name); .type NAME(name), @function; .p2align 6; NAME(name)
#define END(name) .size NAME(name), . - NAME(name)

    .intel_syntax noprefix
    .text

/* void *memcpy(void *to [rdi], const void *from [rsi], size_t n [rdx]); memmove is the same. */
    .globl NAME(memmove)
    .type NAME(memmove), @function
FUNCTION(memcpy):
NAME(memmove):
    mov rax, rdi
    cmp rdx, 16
    jb .Lcopy_0_15
    cmp rdx, 32
    ja .Lcopy_33
    movups xmm0, [rsi]
    movups xmm1, [rsi + rdx - 16]
    movups [rdi], xmm0
    movups [rdi + rdx - 16], xmm1
    ret

.Lcopy_0_15:
    cmp edx, 8
    jb .Lcopy_0_7
    mov rcx, [rsi]
    mov r8, [rsi + rdx - 8]
    mov [rdi], rcx
    mov [rdi + rdx - 8], r8
    ret
.Lcopy_0_7:
    cmp edx, 4
    jb .Lcopy_0_3
    mov ecx, [rsi]
    mov r8d, [rsi + rdx - 4]
    mov [rdi], ecx
    mov [rdi + rdx - 4], r8d
    ret
.Lcopy_0_3:
    cmp edx, 1
    jb .Lcopy_done
    movzx ecx, byte ptr [rsi]
    je .Lcopy_1
    movzx r8d, word ptr [rsi + rdx - 2]
    mov [rdi + rdx - 2], r8w
.Lcopy_1:
    mov [rdi], cl
.Lcopy_done:
    ret

    .p2align 5
.Lcopy_33:
    cmp rdx, 64
    ja .Lcopy_65
    movups xmm0, [rsi]
    movups xmm1, [rsi + 16]
    movups xmm2, [rsi + rdx - 32]
    movups xmm3, [rsi + rdx - 16]
    movups [rdi], xmm0
    movups [rdi + 16], xmm1
    movups [rdi + rdx - 32], xmm2
    movups [rdi + rdx - 16], xmm3
    ret

    .p2align 5
.Lcopy_65:
    /* The last 64 octets, which loops leave. */
    movups xmm4, [rsi + rdx - 64]
    movups xmm5, [rsi + rdx - 48]
    movups xmm6, [rsi + rdx - 32]
    movups xmm7, [rsi + rdx - 16]
    cmp rdx, 128
    ja .Lcopy_129
    movups xmm0, [rsi]
    movups xmm1, [rsi + 16]
    movups xmm2, [rsi + 32]
    movups xmm3, [rsi + 48]
    movups [rdi], xmm0
    movups [rdi + 16], xmm1
    movups [rdi + 32], xmm2
    movups [rdi + 48], xmm3
    movups [rdi + rdx - 64], xmm4
    movups [rdi + rdx - 48], xmm5
    movups [rdi + rdx - 32], xmm6
    movups [rdi + rdx - 16], xmm7
    ret

    .p2align 5
.Lcopy_129:
    mov rcx, rdi
    sub rcx, rsi
    cmp rcx, rdx
    jb .Lbackwards
    /* Forwards. The first 16 octets, and on from the next place of `to` that is a multiple of 16. */
    movups xmm8, [rsi]
    lea r9, [rdi + rdx - 64]
    mov rcx, rdi
    and ecx, 15
    sub rcx, 16
    mov r8, rdi
    sub rsi, rcx
    sub rdi, rcx
    /* Before the first octets are stored: with places that overlap they may be read again. */
    movups xmm0, [rsi]
    movups xmm1, [rsi + 16]
    movups xmm2, [rsi + 32]
    movups xmm3, [rsi + 48]
    movups [r8], xmm8
    jmp .Lforwards_store
    .p2align 5
.Lforwards:
    movups xmm0, [rsi]
    movups xmm1, [rsi + 16]
    movups xmm2, [rsi + 32]
    movups xmm3, [rsi + 48]
.Lforwards_store:
    movaps [rdi], xmm0
    movaps [rdi + 16], xmm1
    movaps [rdi + 32], xmm2
    movaps [rdi + 48], xmm3
    add rsi, 64
    add rdi, 64
    cmp rdi, r9
    jb .Lforwards
    movups [r9], xmm4
    movups [r9 + 16], xmm5
    movups [r9 + 32], xmm6
    movups [r9 + 48], xmm7
    ret

    .p2align 5
.Lbackwards:
    /* The first 64 octets are stored last. */
    movups xmm8, [rsi]
    movups xmm9, [rsi + 16]
    movups xmm10, [rsi + 32]
    movups xmm11, [rsi + 48]
    lea r9, [rsi + 64]
    lea rsi, [rsi + rdx - 64]
    lea rdi, [rdi + rdx - 64]
.Lbackwards_next:
    movups [rdi], xmm4
    movups [rdi + 16], xmm5
    movups [rdi + 32], xmm6
    movups [rdi + 48], xmm7
    sub rsi, 64
    sub rdi, 64
    cmp rsi, r9
    jb .Lbackwards_end
    movups xmm4, [rsi]
    movups xmm5, [rsi + 16]
    movups xmm6, [rsi + 32]
    movups xmm7, [rsi + 48]
    jmp .Lbackwards_next
.Lbackwards_end:
    /* Fewer than 128 octets are left. These 64 reach up to what is done, and down to the first 64. */
    movups xmm4, [rsi]
    movups xmm5, [rsi + 16]
    movups xmm6, [rsi + 32]
    movups xmm7, [rsi + 48]
    movups [rdi], xmm4
    movups [rdi + 16], xmm5
    movups [rdi + 32], xmm6
    movups [rdi + 48], xmm7
    movups [rax], xmm8
    movups [rax + 16], xmm9
    movups [rax + 32], xmm10
    movups [rax + 48], xmm11
    ret
END(memcpy)
    .size NAME(memmove), . - NAME(memmove)

/* void *memset(void *to [rdi], int octet [esi], size_t n [rdx]) */
FUNCTION(memset):
    mov rax, rdi
    movzx esi, sil
    mov rcx, 0x0101010101010101
    imul rcx, rsi
    cmp rdx, 16
    jb .Lset_0_15
    movq xmm0, rcx
    punpcklqdq xmm0, xmm0
    cmp rdx, 64
    ja .Lset_65
    movups [rdi], xmm0
    movups [rdi + rdx - 16], xmm0
    cmp rdx, 32
    jbe .Lset_done
    movups [rdi + 16], xmm0
    movups [rdi + rdx - 32], xmm0
.Lset_done:
    ret
.Lset_0_15:
    cmp edx, 8
    jb .Lset_0_7
    mov [rdi], rcx
    mov [rdi + rdx - 8], rcx
    ret
.Lset_0_7:
    cmp edx, 4
    jb .Lset_0_3
    mov [rdi], ecx
    mov [rdi + rdx - 4], ecx
    ret
.Lset_0_3:
    test edx, edx
    jz .Lset_done
    mov [rdi], cl
    cmp edx, 1
    je .Lset_done
    mov [rdi + rdx - 2], cx
    ret
    .p2align 5
.Lset_65:
    cmp rdx, 4096
    jae .Lset_long
    lea r9, [rdi + rdx - 64]
    movups [rdi], xmm0
    mov rcx, rdi
    and rcx, -16
    add rcx, 16
    cmp rcx, r9
    jae .Lset_end
.Lset_next:
    movaps [rcx], xmm0
    movaps [rcx + 16], xmm0
    movaps [rcx + 32], xmm0
    movaps [rcx + 48], xmm0
    add rcx, 64
    cmp rcx, r9
    jb .Lset_next
.Lset_end:
    movups [r9], xmm0
    movups [r9 + 16], xmm0
    movups [r9 + 32], xmm0
    movups [r9 + 48], xmm0
    ret
.Lset_long:
    mov r8, rax
    mov rcx, rdx
    mov eax, esi
    rep stosb
    mov rax, r8
    ret
END(memset)

/* int memcmp(const void *a [rdi], const void *b [rsi], size_t n [rdx]); bcmp is the same. */
    .globl NAME(bcmp)
    .type NAME(bcmp), @function
FUNCTION(memcmp):
NAME(bcmp):
    cmp rdx, 16
    jb .Lcompare_0_15
    /* Where the last 16 octets begin. */
    lea r8, [rdx - 16]
    xor ecx, ecx
    jmp .Lcompare_test
    .p2align 5
.Lcompare_next:
    movups xmm0, [rdi + rcx]
    movups xmm1, [rsi + rcx]
    pcmpeqb xmm0, xmm1
    pmovmskb eax, xmm0
    sub eax, 0xffff
    jnz .Lcompare_differ
    add rcx, 16
.Lcompare_test:
    cmp rcx, r8
    jb .Lcompare_next
    mov rcx, r8
    movups xmm0, [rdi + rcx]
    movups xmm1, [rsi + rcx]
    pcmpeqb xmm0, xmm1
    pmovmskb eax, xmm0
    sub eax, 0xffff
    jnz .Lcompare_differ
    ret
.Lcompare_differ:
    /* The lowest bit that is not set tells the first octet that differs: that of `eax + 0xffff`'s complement. */
    neg eax
    bsf eax, eax
    add rcx, rax
    movzx eax, byte ptr [rdi + rcx]
    movzx edx, byte ptr [rsi + rcx]
    sub eax, edx
    ret
.Lcompare_0_15:
    cmp edx, 8
    jb .Lcompare_0_7
    mov rax, [rdi]
    mov rcx, [rsi]
    cmp rax, rcx
    jne .Lcompare_words
    mov rax, [rdi + rdx - 8]
    mov rcx, [rsi + rdx - 8]
    cmp rax, rcx
    jne .Lcompare_words
    xor eax, eax
    ret
.Lcompare_words:
    /* As numbers whose first octet counts most. */
    bswap rax
    bswap rcx
    cmp rax, rcx
    sbb eax, eax
    or eax, 1
    ret
.Lcompare_0_7:
    cmp edx, 4
    jb .Lcompare_0_3
    mov eax, [rdi]
    mov ecx, [rsi]
    cmp eax, ecx
    jne .Lcompare_words
    mov eax, [rdi + rdx - 4]
    mov ecx, [rsi + rdx - 4]
    cmp eax, ecx
    jne .Lcompare_words
    xor eax, eax
    ret
.Lcompare_0_3:
    test edx, edx
    jz .Lcompare_equal
    movzx eax, byte ptr [rdi]
    movzx ecx, byte ptr [rsi]
    sub eax, ecx
    jnz .Lcompare_done
    cmp edx, 1
    je .Lcompare_done
    movzx eax, byte ptr [rdi + 1]
    movzx ecx, byte ptr [rsi + 1]
    sub eax, ecx
    jnz .Lcompare_done
    movzx eax, byte ptr [rdi + rdx - 1]
    movzx ecx, byte ptr [rsi + rdx - 1]
    sub eax, ecx
.Lcompare_done:
    ret
.Lcompare_equal:
    xor eax, eax
    ret
END(memcmp)
    .size NAME(bcmp), . - NAME(bcmp)

    .section .note.GNU-stack, "", @progbits
