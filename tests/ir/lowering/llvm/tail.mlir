// RUN: vk-opt %s | lower-to-llvm | filecheck %s
// A bounded axis becomes a mask of lanes, and the load of a masked register fills inactive lanes with 0. Only a register
// across the end is stored under the mask: whole ones need none, and those beyond the end are not stored.

vk.mapped @copy(%x: !vk.tensor<[N], f32>, %out: !vk.tensor<[N], f32>) lanes i facts {sizes = {}, multiples = {}, strides = {x = [1], out = [1]}, distinct} {
  %c1 = arith.constant 1 : i64
  %n = vk.size N
  vk.launch "copy" over (%p = %c1) {
    %a = vk.load %x[i] within (i < %n) : !vk.tensor<[N], f32> -> tensor<8xf32, #vk.axes<i>>
    vk.store %a in %out[i] within (i < %n) : !vk.tensor<[N], f32> <- tensor<8xf32, #vk.axes<i>>
  }
}

// CHECK:      [[COUNT:%[0-9]+]] = arith.maxsi {{%[0-9]+}}, {{%[0-9]+}} : i64
// CHECK:      [[MASK:%[0-9]+]] = arith.cmpi slt, {{%[0-9]+}}, {{%[0-9]+}} : vector<8xi32>
// CHECK:      [[A:%[0-9]+]] = llvm.intr.masked.load %slot0, [[MASK]], {{%[0-9]+}} {alignment = 4 : i32}
// CHECK-NEXT: [[BITS:%[0-9]+]] = llvm.bitcast [[MASK]] : vector<8xi1> to i8
// CHECK:      [[WHOLE:%[0-9]+]] = arith.cmpi eq, [[BITS]], {{%[0-9]+}} : i8
// CHECK:      [[SOME:%[0-9]+]] = arith.cmpi ne, [[BITS]], {{%[0-9]+}} : i8
// CHECK:      scf.if [[WHOLE]] {
// CHECK-NEXT: llvm.store [[A]], %slot2 {alignment = 4 : i64} : vector<8xf32>, !llvm.ptr
// CHECK-NEXT: } else {
// CHECK-NEXT: scf.if [[SOME]] {
// CHECK-NEXT: llvm.intr.masked.store [[A]], %slot2, [[MASK]] {alignment = 4 : i32} : vector<8xf32>, vector<8xi1> into !llvm.ptr
