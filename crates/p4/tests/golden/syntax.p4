// Mistakes of writing: each is told, and the rest is read.
struct S { bit<8> a bit<8> b; }
header H { bit<> w; }
cosnt bit<8> x = 3;
control C(inout bit<8> v) {
    apply {
        v = ;
        if v == 3 { }
        v = 3
        v = (4;
        v == 5;
        switch (v) { 1: v = 3; }
        for (i in 1..3) { }
    }
}
parser P() {
    state start {
        transition
    }
}
const bit<8> y = 8w0x1G;
const bit<8> unfinished = (1 + ;
table t { }
/* a comment that never ends
