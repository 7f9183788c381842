// RUN: vk-opt --lower-to-ttir %s | filecheck %s
// Swap space belongs to a resident program: as many as there are share out all of the launch's programs, and none
// goes on to its next before all of its threads are done with the space.

vk.mapped @swap(%x: !vk.tensor<[N], f32>, %out: !vk.tensor<[N], f32>) facts {sizes = {}, multiples = {}, strides = {out = [1], x = [1]}} {
  %N = vk.size N
  %c8 = arith.constant 8 : i64
  %c0 = arith.constant 0 : i64
  %programs = arith.ceildivsi %N, %c8 : i64
  vk.launch "swap" over (%p = %programs) {
    %small = vk.buffer "small" [] : !vk.buffer<[3], i8>
    %kept = vk.buffer "kept" [] : !vk.buffer<[8], f32>
    %i0 = arith.muli %p, %c8 : i64
    %left = arith.subi %N, %i0 : i64
    %v = vk.load %x[%i0 + i] within (i < %left) : !vk.tensor<[N], f32> -> tensor<8xf32, #vk.axes<i>>
    vk.store %v in %kept[i] : !vk.buffer<[8], f32> <- tensor<8xf32, #vk.axes<i>>
    vk.barrier
    %w = vk.load %kept[i] : !vk.buffer<[8], f32> -> tensor<8xf32, #vk.axes<i>>
    vk.store %w in %out[%i0 + i] within (i < %left) : !vk.tensor<[N], f32> <- tensor<8xf32, #vk.axes<i>>
  }
}

// CHECK:      ^bb0(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>, %N: i64, %swap: !tt.ptr<i8>, %first: i32, %programs: i32):
// CHECK:      [[ID:%[0-9]+]] = "tt.get_program_id"
// CHECK-NEXT: [[SIZE:%[0-9]+]] = arith.constant 128 : i64
// CHECK-NEXT: [[WIDE:%[0-9]+]] = arith.extsi [[ID]] : i32 to i64
// CHECK-NEXT: [[OFFSET:%[0-9]+]] = arith.muli [[WIDE]], [[SIZE]] : i64
// CHECK-NEXT: [[MINE:%[0-9]+]] = "tt.addptr"(%swap, [[OFFSET]])
// CHECK-NEXT: [[STEP:%[0-9]+]] = "tt.get_num_programs"
// CHECK-NEXT: [[FIRST:%[0-9]+]] = arith.addi [[ID]], %first : i32
// CHECK-NEXT: scf.for [[P:%[0-9a-z_]+]] = [[FIRST]] to %programs step [[STEP]] : i32 {
// CHECK:        arith.extsi [[P]] : i32 to i64
// CHECK:        [[KEPT:%[0-9]+]] = "tt.addptr"([[MINE]],
// CHECK-NEXT:   "tt.bitcast"([[KEPT]]) : (!tt.ptr<i8>) -> !tt.ptr<f32>
// CHECK:        "tt.store"
// CHECK-NEXT:   "gpu.barrier"
// CHECK-NEXT:   "tt.load"
// CHECK:        "tt.store"
// CHECK-NEXT:   "gpu.barrier"
// CHECK-NEXT: }
// CHECK-NEXT: "tt.return"
