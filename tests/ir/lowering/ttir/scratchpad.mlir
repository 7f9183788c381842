// RUN: vk-opt --lower-to-ttir %s | filecheck %s
// Scratchpad is addressed by byte offsets. Elements narrower than 32 bits travel as i32. Inactive elements load from
// a slot behind the scratchpad, and become 0, or are stored there. A loop carries copies as their offsets.

vk.mapped @scratch(%x: !vk.tensor<[M, N], f16>, %flags: !vk.tensor<[N], i1>, %out: !vk.tensor<[M, N], f16>) facts {sizes = {}, multiples = {}, strides = {}} {
  %M = vk.size M
  %N = vk.size N
  %c8 = arith.constant 8 : i64
  %c0 = arith.constant 0 : i64
  %c4 = arith.constant 4 : i64
  %programs = arith.ceildivsi %N, %c8 : i64
  vk.launch "scratch" over (%p = %programs) {
    %a = vk.scratch "a" : !vk.scratch<[4, 8], f16>
    %b = vk.scratch "b" : !vk.scratch<[4, 8], f16>
    %live = vk.scratch "live" : !vk.scratch<[8], i1>
    %j0 = arith.muli %p, %c8 : i64
    %left = arith.subi %N, %j0 : i64
    %v = vk.load %x[i, %j0 + j] within (j < %left) : !vk.tensor<[M, N], f16> -> tensor<4x8xf16, #vk.axes<i, j>>
    %f = vk.load %flags[%j0 + j] within (j < %left) : !vk.tensor<[N], i1> -> tensor<8xi1, #vk.axes<j>>
    vk.store %v in %a[i, j] : !vk.scratch<[4, 8], f16> <- tensor<4x8xf16, #vk.axes<i, j>>
    vk.store %f in %live[j] : !vk.scratch<[8], i1> <- tensor<8xi1, #vk.axes<j>>
    vk.barrier
    %old, %new = scf.for %k = %c0 to %c4 step %c4 iter_args(%s = %a, %t = %b) -> (!vk.scratch<[4, 8], f16>, !vk.scratch<[4, 8], f16>) : i64 {
      %w = vk.load %s[i, j] within (j < %left) : !vk.scratch<[4, 8], f16> -> tensor<4x8xf16, #vk.axes<i, j>>
      vk.store %w in %t[i, j] within (j < %left) : !vk.scratch<[4, 8], f16> <- tensor<4x8xf16, #vk.axes<i, j>>
      vk.barrier
      scf.yield %t, %s : !vk.scratch<[4, 8], f16>, !vk.scratch<[4, 8], f16>
    }
    %r = vk.load %old[i, j] : !vk.scratch<[4, 8], f16> -> tensor<4x8xf16, #vk.axes<i, j>>
    vk.store %r in %out[i, %j0 + j] within (j < %left) : !vk.tensor<[M, N], f16> <- tensor<4x8xf16, #vk.axes<i, j>>
  }
}

// CHECK-DAG:  [[A:%[0-9]+]] = arith.constant 0 : i32
// CHECK-DAG:  [[B:%[0-9]+]] = arith.constant 64 : i32
// CHECK-DAG:  [[LIVE:%[0-9]+]] = arith.constant 128 : i32
// CHECK-DAG:  [[SLOT:%[0-9]+]] = arith.constant 144 : i32
// CHECK:      [[F:%f]] = arith.cmpi ne, %{{.*}}, %{{.*}} : tensor<8xi8>
// CHECK:      [[BITS:%[0-9]+]] = "tt.bitcast"(%v) : (tensor<4x8xf16>) -> tensor<4x8xi16>
// CHECK-NEXT: [[WIDE:%[0-9]+]] = arith.extui [[BITS]] : tensor<4x8xi16> to tensor<4x8xi32>
// CHECK-NEXT: "tt.elementwise_inline_asm"(%{{.*}}, [[WIDE]]) <{asm_string = "vk.store.i16", constraints = "=r,r,r", pure = false
// CHECK:      "tt.splat"([[LIVE]])
// CHECK:      asm_string = "vk.store.i8"
// CHECK-NEXT: "gpu.barrier"
// CHECK-NEXT: scf.for %k = %{{.*}} iter_args([[OLD:%[0-9]+]] = [[A]], [[NEW:%[0-9]+]] = [[B]]) -> (i32, i32) : i64 {
// CHECK-NEXT:   [[FIRST:%[0-9]+]] = "tt.splat"([[OLD]])
// CHECK-NEXT:   [[PLACE:%[0-9]+]] = arith.addi [[FIRST]]
// CHECK-NEXT:   [[NOWHERE:%[0-9]+]] = "tt.splat"([[SLOT]])
// CHECK-NEXT:   [[SAFE:%[0-9]+]] = arith.select [[MASK:%[0-9]+]], [[PLACE]], [[NOWHERE]]
// CHECK-NEXT:   [[RAW:%[0-9]+]] = "tt.elementwise_inline_asm"([[SAFE]]) <{asm_string = "vk.load.i16", constraints = "=r,r", pure = false
// CHECK:        %w = arith.select [[MASK]],
// CHECK:        arith.select [[MASK]], %{{[0-9]+}}, [[NOWHERE]]
// CHECK:        "gpu.barrier"
// CHECK-NEXT:   scf.yield [[NEW]], [[OLD]] : i32, i32
